//! SHA-256 of files, in lower-case hexadecimal.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use hmac_sha256::Hash as Sha256;

use crate::error::Error;
use crate::progress::Progress;

/// Copies `from` to `to` and returns the number of bytes and their SHA-256.
pub(crate) fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    progress: &mut dyn Progress,
) -> io::Result<(u64, String)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n])?;
        done += n as u64;
        progress.advance(done);
    }
    let digest = hasher.finalize();
    Ok((done, digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Returns the SHA-256 of a file.
pub(crate) fn of_file(path: &Path, progress: &mut dyn Progress) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let (_, hash) = copy(&mut file, &mut io::sink(), progress).map_err(Error::io("read", path))?;
    Ok(hash)
}

/// Checks a file's size and hash against the expected ones.
pub(crate) fn check_file(
    path: &Path,
    size: u64,
    sha256: &str,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let found = path.metadata().map_err(Error::io("inspect", path))?.len();
    if found != size {
        return Err(Error::WrongSize { path: path.to_owned(), expected: size, found });
    }
    let found = of_file(path, progress)?;
    if found != sha256 {
        let expected = sha256.to_owned();
        return Err(Error::WrongHash { path: path.to_owned(), expected, found });
    }
    Ok(())
}
