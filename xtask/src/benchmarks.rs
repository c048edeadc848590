//! `cargo xtask benchmarks`: measures models and small programs beside other libraries, and writes
//! `docs/benchmarks-models.md` with its chart.

mod chart;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::bench::bench;
use crate::budgets::log::{Table, tables};
use crate::{package, root};
use chart::{Bar, draw};

/// The page, without its ending, and where a quick measurement writes it instead.
const PAGE: &str = "benchmarks-models";

/// Input and extent of a page.
pub(crate) struct Options {
    /// Files with the output of earlier runs, which are joined. Nothing is measured then.
    pub(crate) from: Vec<PathBuf>,
    /// Measure few models, briefly and without optimization, and write to the target folder.
    pub(crate) quick: bool,
}

/// Measures, or reads earlier output, and writes the page and the chart.
///
/// # Errors
/// If a benchmark fails or prints no table, or a file cannot be read or written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let output = if options.from.is_empty() {
        measure(options.quick)?
    } else {
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file).with_context(|| file.display().to_string())
        };
        options.from.iter().map(read).collect::<Result<String>>()?
    };
    let sections = sections(&tables(&output));
    for benchmark in ["models", "complaints"] {
        let has_rows = |section: &Section| section.benchmark == benchmark;
        ensure!(sections.iter().any(has_rows), "the benchmark `{benchmark}` printed no table");
    }
    let folder = if options.quick { package::target() } else { root().join("docs") };
    let compiler = program("rustc", &["--version"])?;
    // `rustc 1.95.0 (…)`
    let compiler = compiler.split_once(" (").map_or(compiler.as_str(), |(name, _)| name).to_owned();
    let versions = [compiler, program("date", &["-u", "+%F"])?];
    for (ending, text) in [
        ("md", page(&output, &sections, &versions)),
        ("svg", draw("Time of other libraries in multiples of oxidax's", &bars(&sections))),
    ] {
        let path = folder.join(PAGE).with_extension(ending);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

/// Runs the benchmarks, and returns what they print.
fn measure(quick: bool) -> Result<String> {
    let models: &[&str] = if quick {
        &["mlp", "decode", "bert"]
    } else {
        &["mlp", "gpt2", "baby", "decode", "resnet50", "bert"]
    };
    bench(&["models", "complaints"], models, quick)
}

/// Returns the first line that a program prints.
fn program(name: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(name).args(arguments).output();
    let output = output.with_context(|| format!("starting {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A table of the page.
struct Section {
    benchmark: String,
    heading: &'static str,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Joins the tables of runs by their captions.
fn sections(tables: &[Table]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for table in tables {
        let heading = match (table.benchmark.as_str(), table.caption.as_str()) {
            ("models", "Milliseconds per call:") => "Milliseconds per call",
            ("models", "Tokens per second:") => "Tokens per second of greedy decoding",
            ("complaints", _) => "Programs after reports of slow JAX programs, milliseconds",
            _ => continue,
        };
        match sections.iter_mut().find(|section| section.heading == heading) {
            Some(section) => section.rows.extend(table.rows.iter().cloned()),
            None => sections.push(Section {
                benchmark: table.benchmark.clone(),
                heading,
                headings: table.headings.clone(),
                rows: table.rows.clone(),
            }),
        }
    }
    sections
}

/// Returns a bar for each ratio.
fn bars(sections: &[Section]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for section in sections {
        let column = |name: &str| section.headings.iter().position(|heading| heading == name);
        for row in &section.rows {
            let cell = |name: &str| column(name).and_then(|at| row.get(at));
            let Some(ratio) = cell("ratio").and_then(|cell| cell.parse::<f64>().ok()) else {
                continue;
            };
            // Ratios are rounded to hundredths.
            let value = 1.0 / ratio.max(0.005);
            let label = cell("beside").map_or("JAX", String::as_str).to_owned();
            bars.push(Bar { group: row[0].clone(), label, value });
        }
    }
    bars
}

/// Returns the page.
fn page(output: &str, sections: &[Section], versions: &[String; 2]) -> String {
    let line = |start: &str| output.lines().find(|line| line.starts_with(start));
    let mut lines = output.lines();
    let is_heading = |line: &&str| line.starts_with("Steps and answers of models, ");
    let machine = lines.find(is_heading).and_then(|_| lines.next()).unwrap_or("unknown machine");
    let [compiler, date] = versions;
    let mut page = format!(
        "# Models beside other libraries\n\n\
         <!-- Written by `cargo xtask benchmarks`; docs/benchmarks.md explains the measurements. \
         -->\n\n\
         Training steps, inference and small programs in oxidax and other libraries, with the\n\
         same parameters, data and first results. [Benchmarks](benchmarks.md#models)\n\
         explains the columns and has the commands. At a load above 1, other work on the machine\n\
         disturbs both sides: compare ratios, not times.\n\n\
         - {machine}, {compiler}, {date}.\n"
    );
    for start in ["The processor ", "Beside "] {
        if let Some(line) = line(start) {
            writeln!(page, "- {line}").expect("a string is written");
        }
    }
    write!(page, "\n![Times in multiples of oxidax's]({PAGE}.svg)\n").expect("a string is written");
    for section in sections {
        let rule: Vec<&str> =
            (0..section.headings.len()).map(|at| if at == 0 { "---" } else { "---:" }).collect();
        write!(
            page,
            "\n## {}\n\n| {} |\n| {} |\n",
            section.heading,
            section.headings.join(" | "),
            rule.join(" | ")
        )
        .expect("a string is written");
        for row in &section.rows {
            writeln!(page, "| {} |", linked(section, row).join(" | "))
                .expect("a string is written");
        }
    }
    let rounds: Vec<_> = output.lines().filter_map(|line| line.split_once(", oxidax / ")).collect();
    if !rounds.is_empty() {
        page.push_str(
            "\n## Ratios of each round\n\noxidax's time over the other library's.\n\n\
             | model or program | beside | ratios |\n| --- | --- | --- |\n",
        );
    }
    for (model, rest) in rounds {
        let (side, ratios) = rest.split_once(": ").unwrap_or((rest, ""));
        writeln!(page, "| {model} | {side} | {ratios} |").expect("a string is written");
    }
    page
}

/// Returns the cells of a row, with links to issues.
fn linked(section: &Section, row: &[String]) -> Vec<String> {
    let cells = section.headings.iter().zip(row);
    let link = |(heading, cell): (&String, &String)| {
        if heading == "issue" {
            format!("[{cell}](https://github.com/jax-ml/jax/issues/{cell})")
        } else {
            cell.clone()
        }
    };
    cells.map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Steps and answers of models, milliseconds
A processor, 2 cores, load 0.24

The processor has avx2; lacks amx_bf16.

Beside JAX 0.10.2.

MLP, step, 1.9M, oxidax / JAX: 0.50 0.40

Milliseconds per call:

| model           | beside | oxidax | theirs | ratio |
| --------------- | -----: | -----: | -----: | ----: |
| MLP, step, 1.9M |    JAX |   12.0 |   24.0 |  0.50 |

Programs after reports of slow JAX programs; milliseconds
A processor, 2 cores, load 0.24

| program  | issue | oxidax | JAX | ratio |
| -------- | ----: | -----: | --: | ----: |
| a filter | 40150 |   2.00 | 1.0 |  2.00 |
| alone    | 26145 |   2.00 |   - |     - |
";

    #[test]
    fn a_page_has_the_machine_tables_links_and_rounds() {
        let sections = sections(&tables(OUTPUT));
        let page = page(OUTPUT, &sections, &["rustc 1.95".into(), "2026-11-26".into()]);
        for line in [
            "- A processor, 2 cores, load 0.24, rustc 1.95, 2026-11-26.",
            "- The processor has avx2; lacks amx_bf16.",
            "- Beside JAX 0.10.2.",
            "## Milliseconds per call",
            "| MLP, step, 1.9M | JAX | 12.0 | 24.0 | 0.50 |",
            "| a filter | [40150](https://github.com/jax-ml/jax/issues/40150) | 2.00 | 1.0 | 2.00 |",
            "| MLP, step, 1.9M | JAX | 0.50 0.40 |",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}\nis missing in\n{page}");
        }
    }

    #[test]
    fn bars_are_the_inverse_ratios_of_rows_that_have_one() {
        let bars = bars(&sections(&tables(OUTPUT)));
        let values: Vec<_> =
            bars.iter().map(|bar| (bar.group.as_str(), bar.label.as_str(), bar.value)).collect();
        assert_eq!(values, [("MLP, step, 1.9M", "JAX", 2.0), ("a filter", "JAX", 0.5)]);
    }

    #[test]
    fn tables_of_several_runs_are_joined() {
        let sections = sections(&tables(&OUTPUT.repeat(2)));
        assert_eq!(sections.iter().map(|section| section.rows.len()).collect::<Vec<_>>(), [2, 4]);
    }
}
