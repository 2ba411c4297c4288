//! Which commit is measured: rows of one are never put together with those of another.

use std::path::Path;
use std::process::Command;

/// Why it is not known what is measured.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// git could not be started.
    #[error("cannot ask git which commit this is; give --commit")]
    NoGit(#[source] std::io::Error),
    /// This is no clone.
    #[error("git does not know which commit this is ({0}); give --commit")]
    NoClone(String),
    /// Rows of it could not be told from rows of other changes.
    #[error(
        "files differ from commit {0}, so rows of it may be of something else; commit first, or give --commit"
    )]
    Changed(String),
}

/// What git calls the tree in `folder`: the commit, with `-dirty` where files differ from it; docs/results, which
/// measuring changes, is left out.
///
/// # Errors
/// When git is not there, or this is no clone.
pub fn commit(folder: &Path) -> Result<String, CommitError> {
    let asked = |arguments: &[&str]| {
        let output =
            Command::new("git").arg("-C").arg(folder).args(arguments).output().map_err(CommitError::NoGit)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(CommitError::NoClone(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
    };
    let commit = asked(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = asked(&["status", "--porcelain", "--", ":/", ":(exclude,top)docs/results"])?;
    Ok(if changes.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// The commit to go on with: one whose rows are all of the same code.
///
/// # Errors
/// When files differ from the commit.
pub fn resumable(commit: &str) -> Result<&str, CommitError> {
    match commit.strip_suffix("-dirty") {
        Some(commit) => Err(CommitError::Changed(commit.to_owned())),
        None => Ok(commit),
    }
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
    fn a_tree_is_named_by_its_commit_and_whether_files_differ() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        assert!(commit(at).unwrap_err().to_string().ends_with("give --commit"));
        git(at, &["init", "-q"]);
        std::fs::write(at.join("code"), "1").unwrap();
        git(at, &["add", "."]);
        git(at, &["commit", "-q", "-m", "first"]);
        let clean = commit(at).unwrap();
        assert_eq!(resumable(&clean).unwrap(), clean);
        // What was measured is no change of what is measured.
        std::fs::create_dir_all(at.join("docs/results")).unwrap();
        std::fs::write(at.join("docs/results/rows"), "1").unwrap();
        assert_eq!(commit(at).unwrap(), clean);
        std::fs::write(at.join("code"), "2").unwrap();
        let changed = commit(at).unwrap();
        assert_eq!(changed, format!("{clean}-dirty"));
        assert!(resumable(&changed).unwrap_err().to_string().contains("commit first"));
    }
}
