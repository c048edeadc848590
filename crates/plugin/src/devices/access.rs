//! Whether this user may open a device file, judged by its mode: opening it to find out would take
//! the device.

use std::fs;
use std::path::Path;

use super::unusable::Unusable;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    /// All groups, the first among them.
    pub(super) groups: Vec<u32>,
}

impl User {
    /// The user that this process acts for. Where the system has no such numbers, the one who may
    /// do everything: then the plugin finds out.
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

/// Refuses a device file that the user may not read and write. `node` is its path on the host.
#[cfg(unix)]
pub(super) fn check(root: &Path, node: &Path, user: &User) -> Result<(), Unusable> {
    use std::os::unix::fs::MetadataExt as _;
    let on_host = root.join(node.strip_prefix("/").unwrap_or(node));
    // What cannot even be looked at lies in a folder that is closed to this user; the plugin says
    // more.
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
        // Membership in root's own group would open more than the device.
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

/// Other systems have no such device files.
#[cfg(not(unix))]
pub(super) fn check(_: &Path, _: &Path, _: &User) -> Result<(), Unusable> {
    Ok(())
}

/// The name of a group, from `/etc/group`.
#[cfg(unix)]
fn group_name(root: &Path, gid: u32) -> Option<String> {
    let text = fs::read_to_string(root.join("etc/group")).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(gid)).then(|| name.to_owned())
    })
}
