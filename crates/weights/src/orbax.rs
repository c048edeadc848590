use crate::error::Result;
use crate::source::ByteFolder;
use crate::weights::Contents;
pub(crate) fn read(_folder: &ByteFolder) -> Result<Option<Contents>> {
    Ok(None)
}
