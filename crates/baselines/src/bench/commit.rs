//! The measured commit: rows of different commits are never combined.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why the commit is unknown.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// git could not be started.
    #[error("cannot ask git which commit this is; give --commit")]
    NoGit(#[source] std::io::Error),
    /// The folder is not a clone.
    #[error("git does not know which commit this is ({0}); give --commit")]
    NoClone(String),
}

/// Identifies the tree in `folder` by its commit, plus a hash of the differences if files are modified, so that rows of one
/// name stem from one code. docs/results is excluded, as measuring changes it.
///
/// # Errors
/// git is missing, or the folder is not a clone.
pub fn commit(folder: &Path) -> Result<String, CommitError> {
    let asked = |arguments: &[&str]| {
        let output =
            Command::new("git").arg("-C").arg(folder).args(arguments).output().map_err(CommitError::NoGit)?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(CommitError::NoClone(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
    };
    let but_results = ["--", ":/", ":(exclude,top)docs/results"];
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    let commit = text(asked(&["rev-parse", "--short=12", "HEAD"])?);
    let root = PathBuf::from(text(asked(&["rev-parse", "--show-toplevel"])?));
    let changes = asked(&[&["diff", "--binary", "HEAD"][..], &but_results].concat())?;
    let listing = ["ls-files", "-z", "--full-name", "--others", "--exclude-standard"];
    let added = String::from_utf8_lossy(&asked(&[&listing[..], &but_results].concat())?).into_owned();
    if changes.is_empty() && added.is_empty() {
        return Ok(commit);
    }
    // Fixed keys: equal differences have equal hashes on every machine.
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    for name in added.split('\0').filter(|name| !name.is_empty()) {
        (name, std::fs::read(root.join(name)).unwrap_or_default()).hash(&mut hasher);
    }
    Ok(format!("{commit}-{:08x}", hasher.finish() >> 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let names = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
        let done = Command::new("git").arg("-C").arg(folder).args(names).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn a_tree_is_identified_by_commit_and_modifications() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        assert!(commit(at).unwrap_err().to_string().ends_with("give --commit"));
        git(at, &["init", "-q"]);
        std::fs::write(at.join("code"), "1").unwrap();
        git(at, &["add", "."]);
        git(at, &["commit", "-q", "-m", "first"]);
        let clean = commit(at).unwrap();
        assert_eq!(clean.len(), 12);
        // Results are excluded from the differences.
        std::fs::create_dir_all(at.join("docs/results")).unwrap();
        std::fs::write(at.join("docs/results/rows"), "1").unwrap();
        assert_eq!(commit(at).unwrap(), clean);
        let changed = |text: &str| {
            std::fs::write(at.join("code"), text).unwrap();
            commit(at).unwrap()
        };
        let (second, third) = (changed("2"), changed("3"));
        assert!(second.starts_with(&format!("{clean}-")) && third.starts_with(&format!("{clean}-")));
        assert_ne!(second, third, "differences of different names");
        assert_eq!(changed("2"), second);
        assert_eq!(changed("1"), clean);
        std::fs::write(at.join("more"), "1").unwrap();
        let one = commit(at).unwrap();
        std::fs::write(at.join("more"), "2").unwrap();
        assert!(one != clean && commit(at).unwrap() != one, "files that are new count");
    }
}
