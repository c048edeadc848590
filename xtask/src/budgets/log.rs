//! The tables in the output of benchmarks.

/// A benchmark, and the first words of its output. The next such line ends the output.
const HEADINGS: [(&str, &str); 8] = [
    ("dispatch", "Warm calls, "),
    ("spread", "Steps on eight CPU devices, "),
    ("eager", "Calls outside of jit "),
    ("compile", "Trace, lower, compile, start; "),
    ("models", "Steps and answers of models, "),
    ("data", "Records per second "),
    ("loops", "Small programs that are loops; "),
    ("complaints", "Programs after reports of slow JAX programs"),
];

/// A Markdown table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// The benchmark that printed it; empty if it is not known.
    pub(crate) benchmark: String,
    /// The line of text above it.
    pub(crate) caption: String,
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the cell of a row, which is named by its first cell, and a column.
    pub(crate) fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let at = self.headings.iter().position(|heading| heading == column)?;
        let row = self.rows.iter().find(|cells| cells.first().is_some_and(|cell| cell == row))?;
        row.get(at).map(String::as_str)
    }
}

/// Returns the Markdown tables of a text. Lines that are not part of a table may stand anywhere.
pub(crate) fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let (mut benchmark, mut caption, mut is_inside) = ("", "", false);
    for line in text.lines().map(str::trim) {
        let Some(cells) = cells(line) else {
            is_inside = false;
            if let Some((name, _)) = HEADINGS.iter().find(|(_, start)| line.starts_with(start)) {
                benchmark = name;
            }
            caption = if line.is_empty() { caption } else { line };
            continue;
        };
        match tables.last_mut().filter(|_| is_inside) {
            Some(_) if cells.iter().all(|cell| is_rule(cell)) => {}
            Some(table) => table.rows.push(cells),
            None => tables.push(Table {
                benchmark: benchmark.to_owned(),
                caption: caption.to_owned(),
                headings: cells,
                rows: Vec::new(),
            }),
        }
        is_inside = true;
    }
    tables
}

/// Returns the cells of a table's line. Backquotes around whole cells stay: they are part of names.
fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(|cell| cell.trim().to_owned()).collect())
}

/// Returns true for a cell of the line below the headings.
fn is_rule(cell: &str) -> bool {
    cell.contains("--") && cell.bytes().all(|byte| matches!(byte, b'-' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::source;

    #[test]
    fn tables_have_benchmark_caption_and_cells() {
        let text = "\
     Running dispatch.rs (target/release/deps/dispatch-1)
Warm calls, microseconds
A processor, 2 cores, load 0.24

Arguments moved into the call:

| leaves | bare C API |  own |
| ------ | ---------: | ---: |
| 1      |       2.55 | 0.66 |
| 10     |       9.25 |    - |
Arguments kept:

| leaves | own |
| ------ | --: |
Calls outside of jit with changing numbers, microseconds
| call |
| ---- |
";
        let tables = tables(text);
        let key = |table: &Table| (table.benchmark.clone(), table.caption.clone());
        let expected = [
            ("dispatch", "Arguments moved into the call:"),
            ("dispatch", "Arguments kept:"),
            ("eager", "Calls outside of jit with changing numbers, microseconds"),
        ];
        assert_eq!(
            tables.iter().map(key).collect::<Vec<_>>(),
            expected.map(|(benchmark, caption)| (benchmark.to_owned(), caption.to_owned()))
        );
        assert_eq!(tables[0].headings, ["leaves", "bare C API", "own"]);
        assert_eq!(tables[0].cell("1", "own"), Some("0.66"));
        assert_eq!(tables[0].cell("10", "own"), Some("-"));
        assert_eq!(tables[0].cell("10", "JAX"), None);
        assert_eq!(tables[0].cell("100", "own"), None);
        assert!(tables[1].rows.is_empty());
    }

    #[test]
    fn every_benchmark_prints_its_heading() {
        for (benchmark, heading) in HEADINGS {
            let path = source(benchmark);
            let text = std::fs::read_to_string(&path).expect("the benchmark's source");
            let call = format!("print_heading(\"{heading}");
            assert!(text.contains(&call), "{} does not contain `{call}`", path.display());
        }
    }
}
