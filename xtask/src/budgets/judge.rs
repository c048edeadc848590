//! Budgets, and their comparison with figures.

use std::fmt;

use anyhow::{Context as _, Result, ensure};

use super::log::{Table, tables};

/// The headings of the table of budgets.
const COLUMNS: [&str; 8] =
    ["benchmark", "table", "row", "figure", "beside", "budget", "tolerance", "reason"];

/// The largest ratio of two figures of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Budget {
    pub(super) benchmark: String,
    /// The first words above the benchmark's table; empty if it prints only one.
    table: String,
    row: String,
    /// The column of our side.
    ours: String,
    /// The column of the other side.
    theirs: String,
    /// A constant that is added to the other side, in the benchmark's unit.
    allowance: f64,
    ratio: f64,
    /// The part by which noise may exceed the ratio.
    tolerance: f64,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Within(f64),
    /// More than the budget, by no more than the tolerance.
    WithinTolerance(f64),
    Over(f64),
    /// The benchmark did not print the figure, for this reason.
    Missing(String),
}

/// Returns the budgets of a page.
///
/// # Errors
/// If the page has no table of budgets, or a cell is not a number.
pub(super) fn budgets(page: &str) -> Result<Vec<Budget>> {
    let tables = tables(page);
    let table = tables.iter().find(|table| table.headings == COLUMNS);
    let table =
        table.with_context(|| format!("no table has the columns {}", COLUMNS.join(", ")))?;
    let budgets = table.rows.iter().map(|cells| {
        Budget::parse(cells).with_context(|| format!("the budget `{}`", cells.join(" | ")))
    });
    budgets.collect()
}

impl Budget {
    fn parse(cells: &[String]) -> Result<Budget> {
        ensure!(
            cells.len() == COLUMNS.len(),
            "it has {} cells, not {}",
            cells.len(),
            COLUMNS.len()
        );
        let text = |at: usize| cells[at].clone();
        ensure!(!cells[7].is_empty(), "it has no reason");
        let beside = cells[4].rsplit_once(" + ");
        let (theirs, allowance) = match beside {
            Some((column, more)) => (column.to_owned(), number(more)?),
            None => (text(4), 0.0),
        };
        let ratio = match cells[5].split_once('/') {
            Some((above, below)) => number(above)? / number(below)?,
            None => number(&cells[5])?,
        };
        let tolerance = cells[6].strip_suffix('%').context("its tolerance is not in percent")?;
        Ok(Budget {
            benchmark: text(0),
            table: text(1),
            row: text(2),
            ours: text(3),
            theirs,
            allowance,
            ratio,
            tolerance: number(tolerance.trim())? / 100.0,
        })
    }

    /// Compares the figures of the newest run among these tables with the budget.
    ///
    /// # Errors
    /// If a figure is not a number.
    pub(super) fn judge(&self, tables: &[Table]) -> Result<Verdict> {
        let is_of = |table: &&Table| {
            table.benchmark == self.benchmark && table.caption.starts_with(&self.table)
        };
        let Some(table) = tables.iter().rev().find(is_of) else {
            return Ok(Verdict::Missing(format!("no table `{}`", self.table)));
        };
        let mut figures = [0.0; 2];
        for (figure, column) in figures.iter_mut().zip([&self.ours, &self.theirs]) {
            match table.cell(&self.row, column) {
                None => {
                    let message = format!("no row `{}` with a column `{column}`", self.row);
                    return Ok(Verdict::Missing(message));
                }
                Some("" | "-") => return Ok(Verdict::Missing(format!("{column} is not measured"))),
                Some(text) => *figure = number(text).with_context(|| self.to_string())?,
            }
        }
        let [ours, theirs] = figures;
        // A difference of noisy times can be negative, and then nothing is within its budget.
        let theirs = (theirs + self.allowance).max(0.0);
        let ratio = ours / theirs;
        Ok(match ratio {
            _ if ratio <= self.ratio => Verdict::Within(ratio),
            _ if ratio <= self.ratio * (1.0 + self.tolerance) => Verdict::WithinTolerance(ratio),
            // A ratio that is not a number is over.
            _ => Verdict::Over(ratio),
        })
    }

    /// Formats a line of the report. A quick measurement is not judged.
    pub(super) fn line(&self, verdict: &Verdict, quick: bool) -> String {
        let (ratio, word) = match verdict {
            Verdict::Missing(_) => ("-".to_owned(), "no figure"),
            Verdict::Within(ratio) | Verdict::WithinTolerance(ratio) | Verdict::Over(ratio)
                if quick =>
            {
                (format!("{ratio:.3}"), "not judged")
            }
            Verdict::Within(ratio) => (format!("{ratio:.3}"), "ok"),
            Verdict::WithinTolerance(ratio) => (format!("{ratio:.3}"), "within tolerance"),
            Verdict::Over(ratio) => (format!("{ratio:.3}"), "OVER"),
        };
        let (budget, tolerance) = (self.ratio, self.tolerance * 100.0);
        let mut line = format!("{ratio:>7} {budget:>7.3} {tolerance:>7.0} %  {word:<16}  {self}");
        if let Verdict::Missing(reason) = verdict {
            line += &format!(": {reason}");
        }
        line
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Budget { benchmark, table, row, ours, theirs, allowance, .. } = self;
        write!(f, "{benchmark}, ")?;
        if !table.is_empty() {
            write!(f, "{table}, ")?;
        }
        write!(f, "{row}: {ours} / ")?;
        if *allowance > 0.0 { write!(f, "({theirs} + {allowance})") } else { write!(f, "{theirs}") }
    }
}

fn number(text: &str) -> Result<f64> {
    text.trim().parse().with_context(|| format!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::{PAGE, report, root, source};

    const RECORDED: &str = include_str!("recorded.txt");

    fn of_the_page() -> Vec<Budget> {
        budgets(&std::fs::read_to_string(root().join(PAGE)).expect("the page")).expect("budgets")
    }

    fn budget(beside: &str, ratio: &str, tolerance: &str) -> Result<Budget> {
        let cells =
            ["dispatch", "Arguments kept", "10", "oxidax", beside, ratio, tolerance, "because"];
        Budget::parse(&cells.map(str::to_owned))
    }

    fn output(ours: &str, theirs: &str) -> Vec<Table> {
        tables(&format!(
            "Warm calls, microseconds\n\nArguments kept:\n\n| leaves | bare | oxidax |\n\
             | ------ | ---: | -----: |\n| 10 | {theirs} | {ours} |\n"
        ))
    }

    #[test]
    fn a_ratio_is_judged_with_its_tolerance() {
        let judge = |beside, ratio, ours| {
            budget(beside, ratio, "10 %")
                .and_then(|budget| budget.judge(&output(ours, "4")))
                .unwrap()
        };
        assert_eq!(judge("bare", "1.50", "6"), Verdict::Within(1.5));
        assert_eq!(judge("bare", "1.50", "6.4"), Verdict::WithinTolerance(1.6));
        assert_eq!(judge("bare", "1.50", "6.8"), Verdict::Over(1.7));
        // 4 µs, and 2 more.
        assert_eq!(judge("bare + 2", "1.00", "6"), Verdict::Within(1.0));
        assert_eq!(judge("bare + 2", "1.00", "9"), Verdict::Over(1.5));
        assert_eq!(judge("bare", "1/40", "0.1"), Verdict::Within(0.025));
        assert!(matches!(judge("bare", "1.50", "NaN"), Verdict::Over(ratio) if ratio.is_nan()));
        assert_eq!(judge("bare + -5", "1.50", "6"), Verdict::Over(f64::INFINITY));
    }

    #[test]
    fn missing_figures_are_named() {
        let judge = |beside, ours| budget(beside, "1", "5 %").unwrap().judge(&output(ours, "-"));
        let missing = |text: &str| Verdict::Missing(text.to_owned());
        assert_eq!(judge("bare", "6").unwrap(), missing("bare is not measured"));
        assert_eq!(judge("JAX", "6").unwrap(), missing("no row `10` with a column `JAX`"));
        let without = budget("bare", "1", "5 %").unwrap().judge(&[]).unwrap();
        assert_eq!(without, missing("no table `Arguments kept`"));
        let error = judge("bare", "fast").unwrap_err();
        let error = error.chain().take(2).map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert_eq!(error, "dispatch, Arguments kept, 10: oxidax / bare: `fast` is not a number");
    }

    #[test]
    fn the_newest_run_counts() {
        let runs = [output("9", "4"), output("4", "4")].concat();
        let budget = budget("bare", "1", "5 %").unwrap();
        assert_eq!(budget.judge(&runs).unwrap(), Verdict::Within(1.0));
    }

    #[test]
    fn budgets_that_are_not_complete_are_refused() {
        for (beside, ratio, tolerance) in
            [("bare + x", "1", "5 %"), ("bare", "1:2", "5 %"), ("bare", "1", "5")]
        {
            assert!(budget(beside, ratio, tolerance).is_err(), "{beside} {ratio} {tolerance}");
        }
        let heading = format!("| {} |\n|--|\n", COLUMNS.join(" | "));
        assert!(budgets("nothing").is_err());
        assert!(budgets(&(heading.clone() + "| a | b |")).is_err());
        assert!(budgets(&(heading + "| a | b | c | d | e | 1 | 5 % | |")).is_err());
    }

    #[test]
    fn every_budget_of_the_page_finds_its_recorded_figures() {
        let (budgets, tables) = (of_the_page(), tables(RECORDED));
        assert!(budgets.len() > 10, "{budgets:?}");
        for budget in &budgets {
            assert!(source(&budget.benchmark).exists(), "{budget}");
            let verdict = budget.judge(&tables).unwrap();
            assert!(!matches!(verdict, Verdict::Missing(_)), "{}", budget.line(&verdict, false));
        }
    }

    #[test]
    fn only_ratios_over_the_tolerance_fail() {
        let judged = |ours, quick| {
            let budgets = [budget("bare", "1.00", "10 %").unwrap()];
            report(&budgets, &output(ours, "4"), quick).map_err(|error| error.to_string())
        };
        assert_eq!(judged("4.3", false), Ok(()));
        assert_eq!(judged("5", false), Err("1 of 1 budgets are exceeded".to_owned()));
        assert_eq!(judged("5", true), Ok(()));
        let missing = judged("-", true).unwrap_err();
        assert!(missing.starts_with("1 of 1 budgets have no figures"), "{missing}");
    }

    #[test]
    fn lines_show_ratio_budget_and_tolerance() {
        let budget = budget("bare + 2", "1/40", "10 %").unwrap();
        let line = |verdict, quick| budget.line(&verdict, quick);
        assert_eq!(
            line(Verdict::Over(0.5), false),
            "  0.500   0.025      10 %  OVER              dispatch, Arguments kept, 10: oxidax / \
             (bare + 2)"
        );
        assert!(line(Verdict::Over(0.5), true).contains("not judged"));
        assert!(line(Verdict::Missing("why".into()), true).ends_with(": why"));
    }
}
