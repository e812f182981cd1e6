//! The users of the sandbox, as its own account files know them.
//!
//! The executable is static and must not load the sandbox's name services, so the two files
//! are parsed here. They belong to the sandbox: they may be huge, broken or no files at all.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use skep_linux::spawn_as::Credentials;

use crate::rootfs;

/// More than any real account file; what lies beyond is not read.
const MAX_ACCOUNT_FILE: u64 = 4 << 20;

/// Where the accounts of the sandbox are written down.
#[derive(Debug, Clone)]
pub(crate) struct Accounts {
    pub(crate) passwd: PathBuf,
    pub(crate) group: PathBuf,
}

/// Somebody who can run processes and own files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) home: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

impl User {
    /// Whoever else there is, somebody with the number zero rules the sandbox.
    pub(crate) fn root() -> Self {
        Self {
            name: "root".to_owned(),
            home: "/root".to_owned(),
            uid: 0,
            gid: 0,
            groups: vec![0],
        }
    }

    /// What a process of this user gets.
    pub(crate) fn credentials(&self) -> Credentials {
        Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.clone(),
        }
    }
}

/// Why a user cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserError {
    /// Nobody is called so.
    #[error("unknown user {name}")]
    Unknown { name: String },
    /// The sandbox has damaged its own accounts.
    #[error("cannot read `{}`", file.display())]
    Accounts { file: PathBuf, source: io::Error },
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
        for entry in group_lines(&group) {
            if entry.members.split(',').any(|member| member == line.name)
                && !groups.contains(&entry.gid)
            {
                groups.push(entry.gid);
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
    pub(crate) fn names(&self) -> Names {
        let mut names = Names::default();
        if let Ok(passwd) = read(&self.passwd) {
            for line in passwd_lines(&passwd) {
                names
                    .users
                    .entry(line.uid)
                    .or_insert_with(|| line.name.to_owned());
            }
        }
        if let Ok(group) = read(&self.group) {
            for line in group_lines(&group) {
                names
                    .groups
                    .entry(line.gid)
                    .or_insert_with(|| line.name.to_owned());
            }
        }
        names
    }
}

/// Ids and what they are called.
#[derive(Debug, Default)]
pub(crate) struct Names {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Names {
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
        file.take(MAX_ACCOUNT_FILE).read_to_end(&mut bytes)?;
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

fn passwd_lines(text: &str) -> impl Iterator<Item = PasswdLine<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
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
        let gid = fields.nth(1)?.parse().ok()?;
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
        let folder = tempfile::tempdir().unwrap();
        let accounts = Accounts {
            passwd: folder.path().join("passwd"),
            group: folder.path().join("group"),
        };
        std::fs::write(&accounts.passwd, passwd).unwrap();
        std::fs::write(&accounts.group, group).unwrap();
        (folder, accounts)
    }

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken\nalso:x:one:2:::\n\
                          user:x:1000:1001:,,,:/home/user:/bin/bash\nhomeless:x:7:7:::\n";
    const GROUP: &str = "root:x:0:\nuser:x:1001:\nsudo:x:27:other,user\nuserland:x:5:userx\n";

    #[test]
    fn a_user_has_the_primary_group_and_those_that_name_it() {
        let (_folder, accounts) = accounts(PASSWD, GROUP);
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
        let (_folder, accounts) = accounts(PASSWD, GROUP);
        for name in ["nobody", "broken", "also", ""] {
            assert!(
                matches!(accounts.find(name), Err(UserError::Unknown { .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn ids_without_a_name_are_shown_as_numbers() {
        let (_folder, accounts) = accounts(PASSWD, GROUP);
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
    fn an_account_file_that_is_a_pipe_does_not_block() {
        let (_folder, accounts) = accounts("", "");
        std::fs::remove_file(&accounts.passwd).unwrap();
        let path = accounts.passwd.as_path();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            0o644.into(),
            0,
        )
        .unwrap();
        assert!(matches!(
            accounts.find("user"),
            Err(UserError::Accounts { .. })
        ));
    }
}
