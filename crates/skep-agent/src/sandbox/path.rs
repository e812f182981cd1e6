//! Resolution of the paths in requests. Pure: nothing here looks at a filesystem.

use crate::sandbox::users::User;

/// Errors of resolving a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// `~name`; only `~` itself is known.
    #[error("cannot expand user-specific home dir")]
    OtherHome,
    /// No file can be called so.
    #[error("path contains a zero byte")]
    ZeroByte,
    /// The kernel takes no such path.
    #[error("path or a name in it is too long")]
    TooLong,
}

/// The longest path and the longest name in one that the kernel takes.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// The absolute path that `path` means for `user`.
///
/// Empty is the working directory of the sandbox, or the home if it has none. `~` and relative
/// paths start at the home, never at the working directory. An absolute path stays as it is.
pub(crate) fn resolve(path: &str, user: &User, workdir: Option<&str>) -> Result<String, PathError> {
    let resolved = expand(path, user, workdir)?;
    let has_long_name = || resolved.split('/').any(|name| name.len() > LONGEST_NAME);
    if resolved.len() > LONGEST_PATH || has_long_name() {
        return Err(PathError::TooLong);
    }
    Ok(resolved)
}

fn expand(path: &str, user: &User, workdir: Option<&str>) -> Result<String, PathError> {
    if path.contains('\0') {
        return Err(PathError::ZeroByte);
    }
    if path.is_empty() {
        return match workdir.filter(|workdir| !workdir.is_empty()) {
            Some(workdir) => expand(workdir, user, None),
            None => Ok(user.home.clone()),
        };
    }
    if path.starts_with('/') {
        return Ok(path.to_owned());
    }
    if let Some(rest) = path.strip_prefix('~') {
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(PathError::OtherHome);
        }
        return Ok(clean(&format!("{}/{rest}", user.home)));
    }
    Ok(clean(&format!("{}/{path}", user.home)))
}

/// The shortest spelling of an absolute path, without asking the filesystem.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The last name of a path; `/` for the root.
pub(crate) fn base_name(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return "/";
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

/// The path without its last name.
pub(crate) fn parent(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rfind('/') {
        Some(0) | None => "/",
        Some(end) => &trimmed[..end],
    }
}

/// `name` inside `directory`, without doubling the slash.
pub(crate) fn join(directory: &str, name: &str) -> String {
    if directory.ends_with('/') {
        format!("{directory}{name}")
    } else {
        format!("{directory}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user() -> User {
        User {
            name: "user".to_owned(),
            home: "/home/user".to_owned(),
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
        }
    }

    #[track_caller]
    fn check(path: &str, workdir: Option<&str>, expected: Result<&str, PathError>) {
        assert_eq!(resolve(path, &user(), workdir), expected.map(str::to_owned));
    }

    #[test]
    fn relative_paths_start_at_the_home_even_with_a_working_directory() {
        check("a/../b", Some("/app"), Ok("/home/user/b"));
        check("./x", None, Ok("/home/user/x"));
        check("../../../../etc", None, Ok("/etc"));
    }

    #[test]
    fn only_the_empty_path_means_the_working_directory() {
        check("", Some("/app"), Ok("/app"));
        check("", Some("~/app"), Ok("/home/user/app"));
        check("", Some(""), Ok("/home/user"));
        check("", None, Ok("/home/user"));
    }

    #[test]
    fn a_tilde_is_the_home_of_the_user_and_of_nobody_else() {
        check("~", None, Ok("/home/user"));
        check("~/x/", None, Ok("/home/user/x"));
        check("~root", None, Err(PathError::OtherHome));
    }

    #[test]
    fn an_absolute_path_is_left_alone() {
        check("/a/../b//c/", None, Ok("/a/../b//c/"));
        check("/a\0b", None, Err(PathError::ZeroByte));
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused_before_anything_is_made() {
        let name = "n".repeat(255);
        check(&format!("/a/{name}"), None, Ok(&format!("/a/{name}")));
        check(&format!("/a/{name}n"), None, Err(PathError::TooLong));
        check(&"/abc".repeat(1024), None, Err(PathError::TooLong));
        check(&format!("{name}n/../b"), None, Ok("/home/user/b"));
    }

    #[test]
    fn names_and_parents_ignore_a_closing_slash() {
        assert_eq!((base_name("/a/b/"), parent("/a/b/")), ("b", "/a"));
        assert_eq!((base_name("/"), parent("/")), ("/", "/"));
        assert_eq!((base_name("/a"), parent("/a")), ("a", "/"));
        assert_eq!(join("/", "a"), "/a");
        assert_eq!(join("/a", "b"), "/a/b");
    }

    proptest! {
        #[test]
        fn cleaning_twice_is_cleaning_once_and_never_climbs_above_the_root(path in "[a./~]{0,24}") {
            let once = clean(&path);
            prop_assert_eq!(clean(&once), once.clone());
            prop_assert!(once.starts_with('/'));
            prop_assert!(!once.split('/').any(|part| part == ".." || part == "."));
        }

        #[test]
        fn resolving_answers_an_absolute_path_or_an_error(path in "\\PC{0,32}") {
            if let Ok(resolved) = resolve(&path, &user(), Some("w")) {
                prop_assert!(resolved.starts_with('/'));
            }
        }
    }
}
