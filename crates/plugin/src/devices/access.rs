//! Checks access to a device file by its mode. Opening the file as a test would claim the device.

use std::fs;
use std::path::Path;

use super::unusable::Unusable;

/// The user that accesses a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    /// All group ids, including the effective one.
    pub(super) groups: Vec<u32>,
}

impl User {
    /// Returns the effective user of this process. On systems without user ids it returns root, and
    /// the plugin reports missing permissions.
    pub(super) fn current() -> User {
        #[cfg(unix)]
        {
            use rustix::process::{getegid, geteuid, getgroups};
            let groups = getgroups().unwrap_or_default();
            let groups = groups.into_iter().chain([getegid()]).map(|group| group.as_raw());
            User { uid: geteuid().as_raw(), groups: groups.collect() }
        }
        #[cfg(not(unix))]
        User { uid: 0, groups: Vec::new() }
    }
}

/// Returns an error if the user may not read and write a device file. `node` is its path on the
/// host.
#[cfg(unix)]
pub(super) fn check(root: &Path, node: &Path, user: &User) -> Result<(), Unusable> {
    use std::os::unix::fs::MetadataExt as _;
    let on_host = root.join(node.strip_prefix("/").unwrap_or(node));
    // The file cannot be inspected if its folder is closed to this user. The plugin reports more.
    let Ok(meta) = fs::metadata(on_host) else { return Ok(()) };
    let (mode, gid) = (meta.mode() & 0o777, meta.gid());
    let needed = if meta.uid() == user.uid {
        0o600
    } else if user.groups.contains(&gid) {
        0o060
    } else {
        0o006
    };
    if user.uid == 0 || mode & needed == needed {
        return Ok(());
    }
    let group = group_name(root, gid);
    let opens_to_group = mode & 0o060 == 0o060 && !user.groups.contains(&gid);
    let help = match &group {
        // Membership in root's group would grant access to more than the device.
        Some(group) if opens_to_group && gid != 0 => format!(
            "`sudo usermod -aG {group} $USER`, then log in again; or run the program with `sudo -E`"
        ),
        _ => format!(
            "`sudo chmod a+rw {}` until the next start of the machine, or run the program with \
             `sudo -E`",
            node.display()
        ),
    };
    Err(Unusable::NotPermitted {
        node: node.to_owned(),
        mode,
        owner: meta.uid(),
        group: group.map_or_else(|| gid.to_string(), |name| format!("{name} ({gid})")),
        user: user.uid,
        help,
    })
}

/// Other systems do not have these device files.
#[cfg(not(unix))]
pub(super) fn check(_: &Path, _: &Path, _: &User) -> Result<(), Unusable> {
    Ok(())
}

/// Returns the name of a group from `/etc/group`.
#[cfg(unix)]
fn group_name(root: &Path, gid: u32) -> Option<String> {
    let text = fs::read_to_string(root.join("etc/group")).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(gid)).then(|| name.to_owned())
    })
}
