//! Every primitive is in a registry, so that the law tests cover it.

use crate::tidy::sources::{Source, closing, rust_below, without_tests, words};

/// The files and names of the registries.
const REGISTRIES: &[(&str, &str, &str)] = &[
    ("src/primitives", "PRIMITIVES", "mod.rs"),
    ("src/control_flow", "HOLDERS", "mod.rs"),
    ("src/kernel", "KERNEL_PRIMITIVES", "text.rs"),
];

/// Primitives without a value, for which no law can be checked. The tangent of `custom_vjp` has
/// only a transpose, which tests/cpu/transforms/custom.rs runs. The observation of a sharding has
/// no result, and tests/devices/parallel/inspection.rs runs it.
const WITHOUT_VALUE: &[&str] = &["CustomTangent", "InspectSharding"];

#[test]
fn every_primitive_is_registered() {
    let mut wrong = Vec::new();
    for (folder, list, file) in REGISTRIES {
        let sources = rust_below(folder);
        let home = sources.iter().find(|source| source.path == format!("{folder}/{file}"));
        let registry = home.map_or("", |source| definition(source, list));
        for source in &sources {
            for name in primitives(&without_tests(&source.code)) {
                // A name of one letter is the type parameter of a blanket impl.
                if WITHOUT_VALUE.contains(&name.as_str()) || name.len() == 1 {
                    continue;
                }
                // Functions create the primitives that hold programs, so their entries contain the
                // name as a string.
                let spoken = format!("\"{}\"", snake_case(&name));
                if words(registry, &name).next().is_none() && !registry.contains(&spoken) {
                    wrong.push(format!("{}: {name} is not in {list} of {folder}", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn primitives_are_defined_in_three_folders_only() {
    let elsewhere: Vec<String> = rust_below("src")
        .iter()
        .filter(|source| !source.path.starts_with("src/testing/"))
        .filter(|source| !REGISTRIES.iter().any(|(room, ..)| source.path.starts_with(room)))
        .flat_map(|source| {
            let names = primitives(&without_tests(&source.code));
            names.into_iter().map(|name| format!("{}: {name}", source.path))
        })
        .collect();
    assert!(elsewhere.is_empty(), "no law test sees these:\n{}", elsewhere.join("\n"));
}

/// Returns the list that `const NAME: … = &[…];` defines, or an empty string if there is none.
fn definition<'a>(source: &'a Source, name: &str) -> &'a str {
    let Some(at) = words(&source.code, &format!("const {name}")).next() else { return "" };
    let statement = &source.code[at..];
    let Some(equals) = statement.find('=') else { return "" };
    let Some(open) = statement[equals..].find('[') else { return "" };
    let open = at + equals + open;
    &source.text[open..closing(&source.code, open)]
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// Returns the names of the types that this code makes primitives.
fn primitives(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for implemented in ["Primitive", "Elementwise"] {
        for at in words(code, implemented) {
            let Some(rest) = code[at + implemented.len()..].trim_start().strip_prefix("for ")
            else {
                continue;
            };
            let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
            let name: String = rest.trim_start().chars().take_while(is_part).collect();
            // `$name` of a macro and the type parameter of the blanket impl are not types.
            if name.len() > 1 {
                names.push(name);
            }
        }
    }
    names
}

#[test]
fn implementations_are_recognised() {
    let code = "impl Primitive for Sin {}\nimpl<T> core::Primitive for Cast<T> {}\n\
                impl Primitive for $x {}\nfn f(p: &dyn Primitive) { for x in y {} }";
    assert_eq!(primitives(code), ["Sin", "Cast"]);
}
