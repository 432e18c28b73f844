//! The user that a run changes to after it has opened its rings.

use nix::unistd::{Gid, Uid, User, getgrouplist, setgroups, setresgid, setresuid};
use std::ffi::CString;
use std::fmt;

/// The user of the package: the default.
const OWN: &str = "weir";

/// A user, with the groups of that user's processes.
#[derive(Clone, Debug)]
pub struct Account {
    /// The name, or the numeric identifier of a user without a name.
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl fmt::Display for Account {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.name)
    }
}

impl Account {
    /// The user that a run changes to: `named`, else `weir`, else the caller of sudo. `None` if the process keeps its
    /// user: it is not root, or no other user exists, or `named` is root.
    ///
    /// # Errors
    /// The named user does not exist or cannot be changed to.
    pub fn of_run(named: Option<&str>) -> Result<Option<Account>, String> {
        let me = Uid::effective();
        let found = match named {
            Some(name) => {
                Some(Account::named(name)?.ok_or_else(|| format!("--user: no user {name} exists"))?)
            }
            None if !me.is_root() || !may_change() => return Ok(None),
            None => match Account::named(OWN)? {
                Some(own) => Some(own),
                None => Account::of_sudo(),
            },
        };
        match found {
            Some(account) if account.uid == me => Ok(None),
            Some(account) if !may_change() => {
                Err(format!("--user {account}: only root with CAP_SETUID and CAP_SETGID can change the user"))
            }
            found => Ok(found),
        }
    }

    fn named(name: &str) -> Result<Option<Account>, String> {
        let user =
            User::from_name(name).map_err(|error| format!("the user {name} cannot be looked up: {error}"))?;
        Ok(user.map(Account::from))
    }

    /// The user that called sudo(8), according to its environment variables.
    fn of_sudo() -> Option<Account> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let uid = Uid::from_raw(number("SUDO_UID")?);
        if uid.is_root() {
            return None;
        }
        if let Ok(Some(user)) = User::from_uid(uid) {
            return Some(Account::from(user));
        }
        let gid = Gid::from_raw(number("SUDO_GID")?);
        Some(Account { name: uid.to_string(), uid, gid, groups: vec![gid] })
    }

    /// The user of a helper process, without supplementary groups.
    pub fn alone(uid: u32, gid: u32) -> Account {
        let gid = Gid::from_raw(gid);
        Account { name: uid.to_string(), uid: Uid::from_raw(uid), gid, groups: vec![gid] }
    }

    /// The numeric identifiers of the user and of the user's group.
    pub fn numbers(&self) -> (u32, u32) {
        (self.uid.as_raw(), self.gid.as_raw())
    }

    /// Changes to the user permanently: the real, the effective and the saved one.
    ///
    /// # Errors
    /// The system refuses.
    pub fn become_it(&self) -> Result<(), String> {
        let refused = |error| format!("cannot change to the user {self}: {error}");
        setgroups(&self.groups).map_err(refused)?;
        setresgid(self.gid, self.gid, self.gid).map_err(refused)?;
        setresuid(self.uid, self.uid, self.uid).map_err(refused)
    }
}

impl From<User> for Account {
    fn from(user: User) -> Self {
        let name = CString::new(user.name.as_bytes()).unwrap_or_default();
        // Without a list of groups, only the user's primary group.
        let groups = getgrouplist(&name, user.gid).unwrap_or_else(|_| vec![user.gid]);
        Account { name: user.name, uid: user.uid, gid: user.gid, groups }
    }
}

/// The name of a user, or the numeric identifier of a user without a name.
pub fn name_of(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// Whether the process may change its user. Root in a container may lack the right.
fn may_change() -> bool {
    use caps::{CapSet, Capability};
    [Capability::CAP_SETUID, Capability::CAP_SETGID]
        .iter()
        .all(|capability| caps::has_cap(None, CapSet::Effective, *capability).unwrap_or(false))
}
