//! The users of the sandbox, as its own account files know them.
//!
//! The executable is static and must not load the sandbox's name services, so the two files
//! are parsed here. They belong to the sandbox: they may be huge, broken or no files at all, and
//! they are read at every call. So what is read and kept of them is bounded, and no work grows
//! faster than their length.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use skep_linux::spawn_as::Credentials;

use crate::rootfs;

/// Longest account file that is read, which is longer than any real one. A longer one is refused:
/// half a file would tell half the truth.
const MAX_ACCOUNT_FILE: u64 = 256 << 10;

/// The groups that one user may be in.
const MAX_GROUPS: usize = 1024;

/// The names of a file that are kept for showing; the ids of others are shown as numbers.
const MAX_NAMES: usize = 4096;

/// The id that stands for "leave it as it is" in calls of the kernel, which for the agent is root.
const NOBODY_AT_ALL: u32 = u32::MAX;

/// Paths of the sandbox's account files.
#[derive(Debug, Clone)]
pub(crate) struct Accounts {
    pub(crate) passwd: PathBuf,
    pub(crate) group: PathBuf,
}

/// A user who can run processes and own files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) home: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

impl User {
    /// Returns the user with uid 0, who exists whatever the account files say.
    pub(crate) fn root() -> Self {
        Self {
            name: "root".to_owned(),
            home: "/root".to_owned(),
            uid: 0,
            gid: 0,
            groups: vec![0],
        }
    }

    /// Returns the credentials of a process of this user.
    pub(crate) fn credentials(&self) -> Credentials {
        Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.clone(),
        }
    }
}

/// Errors of looking up a user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserError {
    /// The account files have no such name.
    #[error("unknown user {name}")]
    Unknown { name: String },
    /// The sandbox has damaged its own accounts.
    #[error("cannot read `{}`", file.display())]
    Accounts { file: PathBuf, source: io::Error },
    /// The same, in a way that would cost the agent.
    #[error("user {name} is in more than {MAX_GROUPS} groups")]
    TooManyGroups { name: String },
}

impl Accounts {
    /// Finds a user by name, or by number as templates sometimes do. Reads files.
    pub(crate) fn find(&self, name: &str) -> Result<User, UserError> {
        let passwd = read(&self.passwd)?;
        let Some(line) = passwd_lines(&passwd)
            .find(|line| line.name == name)
            .or_else(|| {
                let uid: u32 = name.parse().ok()?;
                passwd_lines(&passwd).find(|line| line.uid == uid)
            })
        else {
            return Err(UserError::Unknown {
                name: name.to_owned(),
            });
        };
        let group = read(&self.group)?;
        let mut groups = vec![line.gid];
        let mut known = BTreeSet::from([line.gid]);
        for entry in group_lines(&group) {
            if entry.members.split(',').any(|member| member == line.name) && known.insert(entry.gid)
            {
                groups.push(entry.gid);
            }
            if groups.len() > MAX_GROUPS {
                return Err(UserError::TooManyGroups {
                    name: name.to_owned(),
                });
            }
        }
        Ok(User {
            name: line.name.to_owned(),
            home: if line.home.is_empty() { "/" } else { line.home }.to_owned(),
            uid: line.uid,
            gid: line.gid,
            groups,
        })
    }

    /// The names of all ids, for showing owners. Without accounts all ids are shown as numbers.
    pub(crate) fn names(&self) -> OwnerNames {
        let users = read(&self.passwd).map(|passwd| {
            let lines = passwd_lines(&passwd);
            first_names(lines.map(|line| (line.uid, line.name)))
        });
        let groups = read(&self.group).map(|group| {
            let lines = group_lines(&group);
            first_names(lines.map(|line| (line.gid, line.name)))
        });
        OwnerNames {
            users: users.unwrap_or_default(),
            groups: groups.unwrap_or_default(),
        }
    }
}

/// Maps ids to names. Of several names of one id the first counts, as it does for everybody else.
fn first_names<'a>(lines: impl Iterator<Item = (u32, &'a str)>) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for (id, name) in lines {
        if names.len() == MAX_NAMES {
            break;
        }
        names.entry(id).or_insert_with(|| name.to_owned());
    }
    names
}

/// Ids and what they are called.
#[derive(Debug, Default)]
pub(crate) struct OwnerNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl OwnerNames {
    /// The user's name, or the number of one without a name.
    pub(crate) fn user(&self, uid: u32) -> String {
        self.users
            .get(&uid)
            .cloned()
            .unwrap_or_else(|| uid.to_string())
    }

    /// The group's name, or the number of one without a name.
    pub(crate) fn group(&self, gid: u32) -> String {
        self.groups
            .get(&gid)
            .cloned()
            .unwrap_or_else(|| gid.to_string())
    }
}

fn read(file: &Path) -> Result<String, UserError> {
    let text = || -> io::Result<String> {
        let file = rootfs::regular_for_reading(file)?;
        let mut bytes = Vec::new();
        file.take(MAX_ACCOUNT_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_ACCOUNT_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    text().map_err(|source| UserError::Accounts {
        file: file.to_owned(),
        source,
    })
}

struct PasswdLine<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

struct GroupLine<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id| *id != NOBODY_AT_ALL)
}

fn passwd_lines(text: &str) -> impl Iterator<Item = PasswdLine<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let uid = id(fields.nth(1)?)?;
        let gid = id(fields.next()?)?;
        let home = fields.nth(1)?;
        // A home with a zero byte or a relative one cannot be entered by anybody.
        (home.is_empty() || (home.starts_with('/') && !home.contains('\0'))).then_some(())?;
        Some(PasswdLine {
            name,
            uid,
            gid,
            home,
        })
    })
}

fn group_lines(text: &str) -> impl Iterator<Item = GroupLine<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let gid = id(fields.nth(1)?)?;
        Some(GroupLine {
            name,
            gid,
            members: fields.next().unwrap_or_default(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(passwd: &str, group: &str) -> (tempfile::TempDir, Accounts) {
        let directory = tempfile::tempdir().unwrap();
        let accounts = Accounts {
            passwd: directory.path().join("passwd"),
            group: directory.path().join("group"),
        };
        std::fs::write(&accounts.passwd, passwd).unwrap();
        std::fs::write(&accounts.group, group).unwrap();
        (directory, accounts)
    }

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken\nalso:x:one:2:::\n\
                          user:x:1000:1001:,,,:/home/user:/bin/bash\nhomeless:x:7:7:::\n";
    const GROUP: &str = "root:x:0:\nuser:x:1001:\nsudo:x:27:other,user\nuserland:x:5:userx\n";

    #[test]
    fn a_user_has_the_primary_group_and_those_that_name_it() {
        let (_directory, accounts) = accounts(PASSWD, GROUP);
        let user = accounts.find("user").unwrap();
        assert_eq!(
            (user.uid, user.gid, user.home.as_str()),
            (1000, 1001, "/home/user")
        );
        assert_eq!(user.groups, [1001, 27]);
        assert_eq!(accounts.find("1000").unwrap(), user);
        assert_eq!(accounts.find("homeless").unwrap().home, "/");
    }

    #[test]
    fn broken_lines_and_unknown_names_find_nobody() {
        let (_directory, accounts) = accounts(PASSWD, GROUP);
        for name in ["nobody", "broken", "also", ""] {
            assert!(
                matches!(accounts.find(name), Err(UserError::Unknown { .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn ids_without_a_name_are_shown_as_numbers() {
        let (_directory, accounts) = accounts(PASSWD, GROUP);
        let names = accounts.names();
        assert_eq!(
            (names.user(1000), names.user(5)),
            ("user".to_owned(), "5".to_owned())
        );
        assert_eq!(
            (names.group(27), names.group(28)),
            ("sudo".to_owned(), "28".to_owned())
        );
    }

    #[test]
    fn an_account_file_that_is_none_is_an_error_and_does_not_block() {
        let links = ["/dev/zero", "/proc/self/maps", "/proc/self/fd/0", "passwd"];
        for link in links.map(Some).into_iter().chain([None]) {
            let (_directory, accounts) = accounts("", "");
            let path = accounts.passwd.as_path();
            std::fs::remove_file(path).unwrap();
            match link {
                Some(link) => std::os::unix::fs::symlink(link, path).unwrap(),
                None => {
                    let kind = rustix::fs::FileType::Fifo;
                    rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o644.into(), 0).unwrap();
                }
            }
            let found = accounts.find("user");
            assert!(matches!(found, Err(UserError::Accounts { .. })), "{link:?}");
            assert_eq!(accounts.names().user(0), "0");
        }
    }

    #[test]
    fn an_account_file_without_end_is_not_read() {
        let line = "x".repeat(usize::try_from(MAX_ACCOUNT_FILE).unwrap());
        let (_directory, accounts) = accounts(&format!("{PASSWD}{line}"), GROUP);
        let error = accounts.find("user").unwrap_err();
        let UserError::Accounts { source, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(accounts.names().user(1000), "1000");
        assert_eq!(accounts.names().group(27), "sudo");
    }

    #[test]
    fn ids_that_no_process_can_have_are_nobodys() {
        for uid in ["4294967295", "4294967296", "-1", "", "0x0", " 0"] {
            let (_directory, accounts) = accounts(
                &format!("user:x:{uid}:1::/:\nother:x:1:{uid}::/:\n"),
                &format!("all:x:{uid}:user\n"),
            );
            for name in ["user", "other", uid] {
                let found = accounts.find(name);
                assert!(matches!(found, Err(UserError::Unknown { .. })), "{uid}");
            }
        }
        let (_directory, accounts) =
            accounts("user:x:4294967294:1::/:\n", "all:x:4294967295:user\n");
        assert_eq!(accounts.find("user").unwrap().groups, [1]);
    }

    #[test]
    fn of_several_users_of_one_name_or_number_the_first_counts() {
        let passwd = "user:x:1000:1000::/first:\nuser:x:0:0::/second:\nalias:x:1000:0::/third:\n";
        let (_directory, accounts) = accounts(passwd, "");
        assert_eq!(accounts.find("user").unwrap().home, "/first");
        assert_eq!(accounts.find("1000").unwrap().home, "/first");
        // Another name of the same user is somebody who may be asked for.
        assert_eq!(accounts.find("alias").unwrap().gid, 0);
        assert_eq!(accounts.names().user(1000), "user");
    }

    #[test]
    fn a_user_of_all_groups_is_refused_and_those_of_many_are_found() {
        let groups = |count: usize| {
            let lines = (0..count).map(|gid| format!("g:x:{gid}:u\n"));
            lines.collect::<String>()
        };
        let found = |count| {
            let (_directory, accounts) = accounts("u:x:5:0::/:\n", &groups(count));
            accounts.find("u").map(|user| user.groups.len())
        };
        assert_eq!(found(MAX_GROUPS).unwrap(), MAX_GROUPS);
        let error = found(MAX_GROUPS + 1).unwrap_err();
        assert!(matches!(error, UserError::TooManyGroups { .. }), "{error}");
    }

    #[test]
    fn no_more_names_are_kept_than_are_needed() {
        let passwd: String = (0..2 * MAX_NAMES)
            .map(|uid| format!("u{uid}:x:{uid}:0:::\n"))
            .collect();
        let (_directory, accounts) = accounts(&passwd, "");
        let names = accounts.names();
        assert_eq!(names.users.len(), MAX_NAMES);
        assert_eq!(names.user(7), "u7");
        assert_eq!(names.user(5000), "5000");
    }
}
