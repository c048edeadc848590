//! The command line of programs that examine a step.

use super::examine::examine_with;
use super::fit::{Fit, Fitted, fit};
use super::memory::{Kind, Kinds};
use crate::control_flow::Policy;
use crate::core::{Error, Loc, Mesh, OpErrorKind, catch, trace};
use crate::jit::Lowered;
use crate::parallel::Topology;
use crate::tree::{Args, Tree};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The topology, mesh, batch and policy for which a step is examined.
#[derive(Clone, Debug)]
pub struct Case {
    topology: Topology,
    mesh: Option<Mesh>,
    batch: usize,
    policy: Policy,
}

impl Case {
    /// Returns the topology to compile for.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the mesh over the devices of the topology, or `None` for one device.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.mesh.as_ref()
    }

    /// Returns the batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the `remat` policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// The help text of programs that call [`main`].
const USAGE: &str = "\
Predicts memory and time of a training step on devices that you do not have.

  --topology NAME      v5e:4x4, v4:2x2x1, v5p:2x2x2, v6e:2x4, h100:8 …         (v5e:1x1)
  --slices N           the number of slices                                   (1)
  --mesh AXES          data=4,model=4: a mesh of the topology's devices       (one device)
  --batch N            the batch                                              (1)
  --policy NAME        the `remat` policy: everything, dots,                  (everything)
                       dots-with-no-batch-dims, nothing
  --kind PATTERN=KIND  leaves of this path are parameters, optimizer or inputs; may be repeated
  --fit N,N,…          look for the batch, of these, and the policy that fit
  --budget BYTES       what a step may take on a device, for --fit            (all of its memory)
  --profile DIR        write the predicted time of each line for XProf and Perfetto, and print it
  --html FILE          write the report as a page that any browser opens         (doctor.html)
  --json               the report as JSON";

/// The options of a command line.
#[derive(Debug)]
struct Asked {
    topology: String,
    slices: usize,
    mesh: Option<Vec<(String, usize)>>,
    batch: usize,
    policy: Policy,
    kinds: Kinds,
    fit: Option<Vec<usize>>,
    budget: Option<u64>,
    profile: Option<PathBuf>,
    html: Option<PathBuf>,
    json: bool,
}

/// The file of `--html` without a name.
const PAGE: &str = "doctor.html";

impl Asked {
    fn parse(words: impl IntoIterator<Item = String>) -> Result<Asked, String> {
        let mut asked = Asked {
            topology: "v5e:1x1".into(),
            slices: 1,
            mesh: None,
            batch: 1,
            policy: Policy::Everything,
            kinds: Kinds::guessed(),
            fit: None,
            budget: None,
            profile: None,
            html: None,
            json: false,
        };
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => {
                    (name.to_string(), Some(value.to_string()))
                }
                _ => (word, None),
            };
            if name == "--json" && value.is_none() {
                asked.json = true;
                continue;
            }
            if name == "--html" {
                let file = value.or_else(|| words.next_if(|word| !word.starts_with("--")));
                asked.html = Some(file.unwrap_or_else(|| PAGE.to_string()).into());
                continue;
            }
            let mut value = || {
                let value = value.take().or_else(|| words.next());
                value.ok_or_else(|| format!("{name} needs a value"))
            };
            match name.as_str() {
                "--topology" => asked.topology = value()?,
                "--slices" => asked.slices = number(&value()?)?,
                "--mesh" => asked.mesh = Some(axes(&value()?)?),
                "--batch" => asked.batch = number(&value()?)?,
                "--policy" => asked.policy = policy(&value()?)?,
                "--kind" => {
                    let text = value()?;
                    let (pattern, kind) = text
                        .rsplit_once('=')
                        .ok_or_else(|| format!("`{text}` is not PATTERN=KIND"))?;
                    asked.kinds = asked.kinds.with(pattern, kind_named(kind)?);
                }
                "--fit" => {
                    let batches = value()?.split(',').map(number).collect::<Result<_, _>>()?;
                    asked.fit = Some(batches);
                }
                "--budget" => asked.budget = Some(number(&value()?)? as u64),
                "--profile" => asked.profile = Some(value()?.into()),
                _ => return Err(format!("`{name}` is unknown")),
            }
        }
        Ok(asked)
    }

    fn case(&self) -> Result<Case, Error> {
        let topology = Topology::of_slices(&self.topology, self.slices)?;
        let mesh = self.mesh.as_ref().map(|axes| topology.mesh(axes.clone())).transpose()?;
        Ok(Case { topology, mesh, batch: self.batch, policy: self.policy.clone() })
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number"))
}

fn axes(text: &str) -> Result<Vec<(String, usize)>, String> {
    let axis = |text: &str| {
        let (name, size) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is not AXIS=SIZE"))?;
        Ok((name.trim().to_string(), number(size)?))
    };
    text.split(',').map(axis).collect()
}

fn policy(text: &str) -> Result<Policy, String> {
    match text {
        "everything" => Ok(Policy::Everything),
        "dots" => Ok(Policy::Dots),
        "dots-with-no-batch-dims" => Ok(Policy::DotsWithNoBatchDims),
        "nothing" => Ok(Policy::Nothing),
        _ => Err(format!("`{text}` is not a policy")),
    }
}

fn kind_named(text: &str) -> Result<Kind, String> {
    let mut kinds = [Kind::Parameters, Kind::Optimizer, Kind::Inputs].into_iter();
    let kind = kinds.find(|kind| kind.name() == text);
    kind.ok_or_else(|| format!("`{text}` is not parameters, optimizer or inputs"))
}

/// Runs a program that examines a step: reads the command line, lowers and compiles the step, and
/// prints the [`Report`](super::Report).
///
/// Call it in `examples/doctor.rs` of your crate, which `oxidax doctor` runs. `step` returns the
/// lowered step for a [`Case`]. Arrays can be abstract, so create the model with
/// [`eval_shape`](crate::transforms::eval_shape).
///
/// The exit code is 0 if the step fits, 1 if it does not, and 2 for errors, including those of
/// `step`.
///
/// ```no_run
/// use oxidax::{doctor, prelude::*};
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     doctor::main(|case| {
///         let step = jit(|w: Array, x: Array| &w - grad(|w: &Array| x.matmul(w).mean())(&w));
///         let w = Aval::new(DType::F32, [784, 10]);
///         let x = Aval::new(DType::F32, [case.batch(), 784]);
///         let step = match case.mesh() {
///             Some(mesh) => step.in_shardings((&mesh.replicated(), &mesh.sharding(p!["data"])?)),
///             None => step,
///         };
///         step.lower(w, x)
///     })
/// }
/// ```
///
/// ```text
/// oxidax doctor -- --topology v5e:2x2 --mesh data=4 --batch 1024
/// cargo run --example doctor -- --topology v5p:2x2x1 --fit 256,512,1024 --json
/// ```
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a program's main speaks to its user")]
pub fn main<A: Args, O: Tree>(step: impl Fn(&Case) -> Result<Lowered<A, O>, Error>) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let asked = match Asked::parse(words) {
        Ok(asked) => asked,
        Err(message) => {
            eprintln!("error: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&asked, step) {
        Ok((text, fits)) => {
            println!("{text}");
            if fits { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error @ Error::TooLarge { .. }) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Examines the step. Returns the text to print, and true if the step fits.
fn run<A: Args, O: Tree>(
    asked: &Asked,
    step: impl Fn(&Case) -> Result<Lowered<A, O>, Error>,
) -> Result<(String, bool), Error> {
    let step = |case: &Case| catch(|| step(case)).flatten();
    let mut case = asked.case()?;
    let mut fitted: Option<Fitted> = None;
    if let Some(batches) = &asked.fit {
        let fit_options = Fit { budget: asked.budget, batches: batches.clone(), ..Fit::default() };
        let lowered = |batch: usize, policy: &Policy| {
            step(&Case { batch, policy: policy.clone(), ..case.clone() })
        };
        let result = fit(&case.topology, &fit_options, lowered)?;
        case = Case { batch: result.best.batch, policy: result.best.policy.clone(), ..case };
        fitted = Some(result);
    }
    let mut report = examine_with(&step(&case)?, &case.topology, &asked.kinds)?;
    report.fitted = fitted;
    let mut text = if asked.json { report.to_json() } else { report.to_string() };
    if let (Some(folder), Some(predicted)) = (&asked.profile, &report.predicted) {
        let saved = predicted.to_profile().save(folder)?;
        if !asked.json {
            text.push_str(&format!("\n\n{predicted}\nwritten to {}", saved.display()));
        }
    }
    if let Some(file) = &asked.html {
        std::fs::write(file, report.to_html()).map_err(|error| cannot_write(file, &error))?;
        if !asked.json {
            text.push_str(&format!("\n\nwrote {}", file.display()));
        }
    }
    Ok((text, report.fits))
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Error {
    let message = format!("cannot write {}: {error}", file.display());
    let help = "name a file in a folder that exists and that this user can write to";
    trace::op_error(OpErrorKind::Runtime, "doctor --html", message, Loc::UNKNOWN).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Asked, String> {
        Asked::parse(text.split(' ').filter(|word| !word.is_empty()).map(str::to_string))
    }

    #[test]
    fn options_are_parsed() {
        let asked =
            parse("--topology v5e:4x4 --mesh data=4,model=4 --batch=32 --policy dots --json")
                .unwrap();
        assert_eq!(asked.topology, "v5e:4x4");
        assert_eq!(asked.mesh, Some(vec![("data".into(), 4), ("model".into(), 4)]));
        assert_eq!((asked.batch, asked.policy, asked.json), (32, Policy::Dots, true));
        let asked =
            parse("--fit 1,2,4 --budget 1000 --kind $[0].ema*=optimizer --slices 2").unwrap();
        assert_eq!((asked.fit, asked.budget, asked.slices), (Some(vec![1, 2, 4]), Some(1000), 2));
        assert_eq!(parse("").unwrap().topology, "v5e:1x1");
        assert_eq!(parse("--profile runs").unwrap().profile, Some("runs".into()));
        let page = |text| parse(text).unwrap().html;
        assert_eq!(page("--html a.html --json"), Some("a.html".into()));
        assert_eq!(page("--html=a.html"), Some("a.html".into()));
        assert_eq!(page("--html --json"), Some("doctor.html".into()));
        assert_eq!(page("--json --html"), Some("doctor.html".into()));
    }

    #[test]
    fn errors_name_the_wrong_option() {
        for (text, expected) in [
            ("--batch", "--batch needs a value"),
            ("--batch many", "`many` is not a number"),
            ("--mesh data", "`data` is not AXIS=SIZE"),
            ("--policy some", "`some` is not a policy"),
            ("--kind a", "`a` is not PATTERN=KIND"),
            ("--kind a=b", "`b` is not parameters, optimizer or inputs"),
            ("--jsno", "`--jsno` is unknown"),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected);
        }
    }
}
