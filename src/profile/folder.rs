//! [`RunFolder`]: the folder of one profile, in JAX's layout.

use super::recorded::Profile;
use super::session::error;
use super::shared_run::SharedRun;
use super::{line_profile_file, perfetto, xspace};
use crate::core::{Error, Loc, OpErrorKind};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest number of profiles that start in one second.
const SAME_SECOND: usize = 1000;

/// A new folder `DIR/plugins/profile/TIME`, in which XProf and TensorBoard look for profiles.
pub(super) struct RunFolder {
    path: PathBuf,
    /// The announcement to the other processes of a program of several.
    shared: Option<SharedRun>,
    /// The function that creates it, and the line that called it.
    name: &'static str,
    loc: Loc,
}

impl RunFolder {
    /// Creates the folder, so that a wrong path is an error before the work and not after it.
    #[track_caller]
    pub(super) fn create(name: &'static str, dir: &Path) -> Result<RunFolder, Error> {
        let loc = Loc::caller();
        let runs = dir.join("plugins").join("profile");
        match create_in(&runs) {
            Ok(path) => Ok(RunFolder { path, shared: None, name, loc }),
            Err(error) => Err(refused(name, &runs, &error, loc)),
        }
    }

    /// Creates the folder of a profile whose recording starts now. In a program of several
    /// processes, those that record at the same time below the same `dir` write to one folder.
    #[track_caller]
    pub(super) fn create_shared(name: &'static str, dir: &Path) -> Result<RunFolder, Error> {
        let mut folder = RunFolder::create(name, dir)?;
        let run = folder.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        folder.shared = SharedRun::announce(dir, &run);
        Ok(folder)
    }

    /// Goes to the folder that the other processes write to. Returns the beginning of the names of
    /// this process's files; `None` if it has the folder for itself.
    fn join_others(&mut self) -> Result<Option<String>, Error> {
        let Some(shared) = self.shared.take() else { return Ok(None) };
        let run = self.path.with_file_name(shared.end());
        if run != self.path {
            // An empty folder that stays does no harm.
            drop(fs::remove_dir(&self.path));
            fs::create_dir_all(&run).map_err(|error| refused(self.name, &run, &error, self.loc))?;
            self.path = run;
        }
        Ok(Some(SharedRun::file_prefix(&host())))
    }

    /// Writes the files of a profile, and returns the folder.
    pub(super) fn write(mut self, profile: &Profile) -> Result<PathBuf, Error> {
        if let Some(process) = self.join_others()? {
            let host = process.trim_end_matches('.');
            self.write_file(&format!("{process}xplane.pb"), |out| {
                xspace::write(profile, host, out)
            })?;
            let file = format!("{process}{}", perfetto::FILE);
            self.write_file(&file, |out| perfetto::write(profile, out))?;
            return Ok(self.path);
        }
        let host = host();
        self.write_file(&format!("{host}.xplane.pb"), |out| xspace::write(profile, &host, out))?;
        self.write_file(perfetto::FILE, |out| perfetto::write(profile, out))?;
        if let Some(lines) = profile.lines() {
            let steps = lines.predicted_for.is_none().then(|| profile.step_lines());
            let steps = steps.filter(|steps| steps.steps > 0);
            self.write_file(line_profile_file::NAME, |out| {
                line_profile_file::write(lines, steps.as_ref(), out)
            })?;
        }
        Ok(self.path)
    }

    /// Writes a file whose contents are known.
    #[cfg(feature = "profile-server")]
    pub(super) fn write_bytes(&self, file: &str, bytes: &[u8]) -> Result<(), Error> {
        self.write_file(file, |out| out.write_all(bytes))
    }

    #[cfg(feature = "profile-server")]
    pub(super) fn into_path(self) -> PathBuf {
        self.path
    }

    /// Removes the folder, in which nothing was written.
    #[cfg(feature = "profile-server")]
    pub(super) fn remove(self) {
        // An empty folder that stays does no harm.
        drop(fs::remove_dir(self.path));
    }

    fn write_file(
        &self,
        file: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let path = self.path.join(file);
        let written = File::create(&path).map(BufWriter::new).and_then(|mut out| {
            write(&mut out)?;
            out.flush()
        });
        written.map_err(|error| refused(self.name, &path, &error, self.loc))
    }
}

fn refused(name: &str, path: &Path, source: &io::Error, loc: Loc) -> Error {
    let message = format!("cannot write {}: {source}", path.display());
    let help = "name a folder on a local disk with free space that this user can write to";
    error(name, OpErrorKind::Runtime, message, loc, help)
}

/// Creates a folder that is named after the current time.
fn create_in(runs: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(runs)?;
    let time = time_name(SystemTime::now());
    for number in 0..SAME_SECOND {
        let name = if number == 0 { time.clone() } else { format!("{time}_{number}") };
        let path = runs.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| path),
        }
    }
    let message = format!("there are {SAME_SECOND} profiles of {time}");
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}

/// Formats a time as `2026_01_31_23_59_58`, in UTC.
pub(super) fn time_name(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil_date(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}_{second:02}")
}

/// Returns year, month and day of the day with this number, counted from 1 January 1970.
///
/// Years are counted from 1 March, so that the leap day is the last of its year. Source: Howard
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil_date(days: u64) -> (u64, u64, u64) {
    // 400 years have 146,097 days. 1 January 1970 is day 719,468 after 1 March of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// Returns the name of this host.
pub(super) fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().replace('/', "_");
    if name.is_empty() { "localhost".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn folders_are_named_after_utc() {
        let name = |seconds| time_name(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(name(0), "1970_01_01_00_00_00");
        assert_eq!(name(951_782_399), "2000_02_28_23_59_59");
        assert_eq!(name(951_782_400), "2000_02_29_00_00_00");
        assert_eq!(name(1_798_761_599), "2026_12_31_23_59_59");
        assert_eq!(name(4_107_542_400), "2100_03_01_00_00_00");
    }

    #[test]
    fn profiles_of_one_second_have_folders_of_their_own() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders: Vec<PathBuf> =
            (0..3).map(|_| create_in(dir.path()).expect("a folder")).collect();
        assert!(folders.iter().all(|folder| folder.is_dir()));
        assert_ne!(folders[0], folders[1]);
        assert_ne!(folders[1], folders[2]);
    }
}
