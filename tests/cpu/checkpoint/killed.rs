//! Killed and restarted runs equal the uninterrupted run bit for bit.

mod on_cpu {
    use crate::checkpoint::support::names;
    use checkpoint::{Folder, Snapshot};
    use data::{Source, Synthetic};
    use oxidax::prelude::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader, Lines, Write};
    use std::path::Path;
    use std::process::{Child, ChildStdout, Command, Stdio};
    use std::time::Duration;

    const STEPS: u64 = 90;
    const EVERY: u64 = 2;
    const KILLS: usize = 50;
    /// The variable that names the folder to a child.
    const FOLDER: &str = "OXIDAX_TEST_KILLED_RUN";

    /// The state that changes from step to step, except the data position.
    #[derive(Tree)]
    struct Run {
        hidden: nn::Linear,
        head: nn::Linear,
        optimizer: optim::State,
        key: random::Key,
    }

    fn optimizer() -> optim::Optimizer {
        optim::adamw(optim::warmup_cosine_decay_schedule(0.0, 0.02, 10, STEPS as u32, 0.0))
    }

    fn begin() -> Run {
        let hidden = nn::Linear::new(random::key(1), 4, 16);
        let head = nn::Linear::new(random::key(2), 16, 1);
        let state = optimizer().init(&(hidden.clone(), head.clone()));
        Run { hidden, head, optimizer: state, key: random::key(3) }
    }

    fn step(run: Run, x: Array) -> (Run, Array) {
        let [key, now] = run.key.split();
        let y = sin(&x).sum_axes(axes(-1).keepdims());
        let loss = |(hidden, head): &(nn::Linear, nn::Linear)| {
            let h = nn::Dropout::new(0.25).forward(&relu(hidden.forward(&x)), Some(now.clone()));
            nn::mean_squared_error(&head.forward(&h), &y)
        };
        let model = (run.hidden, run.head);
        let (loss, gradients) = value_and_grad(loss)(&model);
        let (updates, state) = optimizer().update(&gradients, &run.optimizer, &model);
        let (hidden, head) = optim::apply_updates(&model, &updates);
        (Run { hidden, head, optimizer: state, key }, loss)
    }

    fn batches() -> data::Stream<Vec<f32>> {
        let numbers = Synthetic::new(64, |index| Ok(vec![index as f32 / 64.0; 4]));
        numbers.shuffled(5).stream().shuffle(16, 6).repeat_forever()
    }

    /// Trains to the end from the folder's last checkpoint, and prints progress.
    fn train(path: &Path, say: &mut dyn FnMut(String)) -> Result<(), Error> {
        let mut folder = Folder::open(path)?.keep_last(2).keep_every(32);
        let template = eval_shape(begin, ())?;
        let (mut run, mut data, mut done) = match folder.restore_latest(&template)? {
            Some(restored) => {
                assert!(restored.skipped.is_empty(), "{:?}", restored.skipped);
                let data = batches().resume(&restored.position.unwrap())?;
                (restored.state, data, restored.step)
            }
            None => (jit(begin).call()?, batches(), 0),
        };
        say(format!("from {done}"));
        let step = jit(step);
        while done < STEPS {
            let rows: Vec<f32> = data.by_ref().take(8).collect::<Result<Vec<_>, _>>()?.concat();
            let loss;
            (run, loss) = step.call(run, Array::from_slice(&rows, [8, 4])?)?;
            done += 1;
            say(format!("step {done} {:08x}", loss.item::<f32>()?.to_bits()));
            if done % EVERY == 0 {
                folder.save(Snapshot::new(done, &run).position(data.position()))?;
                // This save has waited for the previous one.
                say(format!("kept {}", done - EVERY));
            }
        }
        folder.wait()
    }

    #[test]
    #[ignore = "the body of the child processes"]
    fn child() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let mut out = std::io::stdout().lock();
        // The test harness has begun a line.
        out.write_all(b"\n").unwrap();
        let mut say = |line: String| writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
        train(Path::new(&folder), &mut say).unwrap();
    }

    /// A line printed by a child.
    #[derive(Default)]
    struct Said {
        from: Option<u64>,
        kept: u64,
        losses: BTreeMap<u64, String>,
    }

    impl Said {
        fn hear(&mut self, line: &str) {
            let mut words = line.split_ascii_whitespace();
            let (what, number) = (words.next(), words.next().and_then(|n| n.parse().ok()));
            match (what, number) {
                (Some("from"), Some(step)) => self.from = Some(step),
                (Some("kept"), Some(step)) => self.kept = step,
                // A line truncated by the kill is ignored.
                (Some("step"), Some(step)) => {
                    if let Some(bits) = words.next().filter(|bits| bits.len() == 8) {
                        self.losses.insert(step, bits.to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    fn start(path: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "checkpoint::killed::on_cpu::child", "--ignored", "--nocapture"])
            .env(FOLDER, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, out)
    }

    #[test]
    fn a_folder_is_locked_until_its_process_ends() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, mut out) = start(folder.path());
        out.find(|line| line.as_ref().unwrap().starts_with("from")).unwrap().unwrap();
        let error = Folder::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {} has the folder open", child.id())), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
        Folder::open(folder.path()).unwrap();
    }

    /// Runs a child and kills it after `lines` lines and a delay. Returns true if it finished
    /// before.
    fn killed(path: &Path, lines: usize, after: Duration) -> (Said, bool) {
        let (mut child, mut out) = start(path);
        let mut said = Said::default();
        let mut heard = 0;
        while heard < lines {
            let Some(line) = out.next() else { break };
            said.hear(&line.unwrap());
            heard += 1;
        }
        // The instant is random, because a kill must be safe at any time.
        std::thread::sleep(after);
        child.kill().unwrap();
        out.map_while(Result::ok).for_each(|line| said.hear(&line));
        let status = child.wait().unwrap();
        assert!(status.success() || status.code().is_none(), "the child failed: {status}");
        (said, status.success())
    }

    #[test]
    fn run_killed_fifty_times_equals_the_uninterrupted_run() {
        let reference = tempfile::tempdir().unwrap();
        let mut expected = Said::default();
        train(reference.path(), &mut |line| expected.hear(&line)).unwrap();
        assert_eq!(expected.losses.len() as u64, STEPS);
        let (first, last) = (&expected.losses[&1], &expected.losses[&STEPS]);
        assert_ne!(first, last);

        let mut random = Xoshiro256PlusPlus::seed_from_u64(20);
        let (mut kills, mut resumed, mut interrupted) = (0, 0, 0);
        while kills < KILLS {
            let folder = tempfile::tempdir().unwrap();
            let (mut kept, mut seen) = (0, BTreeMap::new());
            loop {
                // Mostly during training and saving, sometimes during start and cleanup.
                let lines = random.random_range(0..30usize).saturating_sub(3);
                let longest = if lines == 0 { 200_000 } else { 6_000 };
                let after = Duration::from_micros(random.random_range(0..longest));
                let (said, ended) = killed(folder.path(), lines, after);
                interrupted +=
                    usize::from(names(folder.path()).iter().any(|name| name.starts_with('.')));
                if let Some(from) = said.from {
                    assert!(from >= kept, "resumed from step {from}, but {kept} was saved");
                    resumed += usize::from(from > 0);
                }
                for (step, bits) in &said.losses {
                    assert_eq!(bits, &expected.losses[step], "the loss of step {step}");
                }
                kept = kept.max(said.kept);
                seen.extend(said.losses);
                kills += usize::from(!ended);
                if ended || kills == KILLS {
                    break;
                }
            }
            // The last child runs to the end.
            let mut said = Said::default();
            train(folder.path(), &mut |line| said.hear(&line)).unwrap();
            seen.extend(said.losses);
            assert_eq!(seen, expected.losses);
        }
        assert!(interrupted > KILLS / 5, "only {interrupted} of {kills} interrupted a save");
        assert!(resumed > KILLS / 2, "only {resumed} of {kills} resumed from a checkpoint");
    }
}
