"""Source lines of equations: file, line, text and assigned names of a Python statement."""

import ast
import functools
import os
import sysconfig

import jax

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.dirname(os.path.abspath(jax.__file__))
STANDARD = os.path.abspath(sysconfig.get_paths()["stdlib"])
OWN = {os.path.join(HERE, name) for name in ("port.py", "port_calls.py", "port_sources.py")}
OWN.add(os.path.join(HERE, "port_json.py"))


def is_library(path):
    """Tells files of JAX from others."""
    return os.path.abspath(path).startswith(LIBRARY + os.sep)


def is_users(path):
    """Tells user files from JAX, installed packages, and this program."""
    path = os.path.abspath(path)
    installed = "site-packages" in path or "dist-packages" in path or path.startswith("<")
    installed = installed or path.startswith(STANDARD + os.sep)
    return not installed and path not in OWN and os.path.exists(path)


def shown(path, root):
    """A path for people: below the root, or below the folder of installed packages."""
    for folder in ("site-packages", "dist-packages"):
        if folder + os.sep in path:
            return path.split(folder + os.sep)[-1].replace(os.sep, "/")
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    return os.path.basename(path) if relative.startswith("..") else relative


def names_of(target):
    """The names that an assignment binds, or None where it binds something else."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in names_of(part)]
    return [None]


class Module(ast.NodeVisitor):
    """Statements of a Python file by line."""

    def __init__(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        self.lines = text.splitlines()
        self.statements = {}
        self.unpacked = {}
        try:
            self.visit(ast.parse(text))
        except SyntaxError:
            pass

    def generic_visit(self, node):
        simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
        if isinstance(node, simple):
            for line in range(node.lineno, node.end_lineno + 1):
                self.statements[line] = node
        super().generic_visit(node)

    def visit_FunctionDef(self, node):
        unpacked = {}
        for statement in node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
                target = statement.targets[0]
                if isinstance(target, (ast.Tuple, ast.List)):
                    unpacked[statement.value.id] = names_of(target)
        self.unpacked[node.name, node.lineno] = unpacked
        self.generic_visit(node)

    def statement(self, line):
        """The first line, the text on one line, and the names that a statement assigns."""
        node = self.statements.get(line)
        if node is None:
            text = self.lines[line - 1].strip() if line <= len(self.lines) else ""
            return line, text, []
        text = " ".join(part.strip() for part in self.lines[node.lineno - 1 : node.end_lineno])
        text = text.replace("( ", "(").replace("[ ", "[")
        names = []
        if isinstance(node, ast.Assign):
            names = names_of(node.targets[0])
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            names = names_of(node.target)
        return node.lineno, text, names


@functools.lru_cache(maxsize=None)
def module(path):
    """The statements of a file."""
    return Module(path)


def unpacked(path, name, line):
    """The names into which a function unpacks its parameters, by parameter."""
    for (other, first), names in module(path).unpacked.items():
        # A decorator moves the line that JAX reports.
        if other == name and abs(first - line) <= 3:
            return names
    return {}


class Lines:
    """A table of the lines that equations come from."""

    def __init__(self, root):
        self.root = root
        self.index = {}
        self.table = []

    def of(self, eqn):
        """The index of the innermost user line that made an equation, or None."""
        traceback = eqn.source_info.traceback
        for frame in traceback.frames if traceback is not None else ():
            if is_users(frame.file_name):
                return self.at(frame.file_name, frame.line_num, frame.function_name)
        return None

    def at(self, path, line, function):
        first, text, names = module(path).statement(line)
        # Blocks below a line are not part of it.
        key = (path, first)
        if key not in self.index:
            file = shown(path, self.root)
            self.index[key] = len(self.table)
            function = function.rsplit(".", 1)[-1]
            self.table.append({"file": file, "line": first, "text": text[:400],
                               "function": function, "names": names})
        return self.index[key]
