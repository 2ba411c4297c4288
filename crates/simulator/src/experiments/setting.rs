//! Output folder and effort of an experiment.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// An experiment's error, for display only.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A registered experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line and stem of its files.
    pub name: &'static str,
    /// One-line description; its first word is the paper, and names the results folder.
    pub summary: &'static str,
    /// Whether it is randomized, hence repeated with several seeds.
    pub seeded: bool,
    /// Runs it.
    pub run: fn(&Setting) -> Result<(), Failure>,
}

impl Experiment {
    /// A randomized experiment, repeated with several seeds.
    #[must_use]
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        run: fn(&Setting) -> Result<(), Failure>,
    ) -> Self {
        Self { name, summary, seeded: true, run }
    }

    /// A deterministic experiment.
    #[must_use]
    pub const fn without_seeds(self) -> Self {
        Self { seeded: false, ..self }
    }
}

/// Output folder and effort of a run of an experiment.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The experiment.
    pub experiment: Experiment,
    /// Output folder; it exists.
    pub out: PathBuf,
    /// Number of seeds for randomized experiments.
    pub seeds: u64,
    /// Whether progress is shown on standard error.
    pub progress: bool,
    /// The commit that pages name, if known.
    pub commit: Option<String>,
}

impl Setting {
    /// Reports progress on standard error, if enabled.
    pub fn report(&self, done: usize, all: usize) {
        if self.progress {
            // Progress is best effort.
            let _ =
                write!(std::io::stderr(), "\r{done} of {all} runs {}", if done == all { "\n" } else { "" });
        }
    }

    /// Writes a results file; Markdown pages get a provenance paragraph.
    ///
    /// # Errors
    /// The folder is not writable.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.out.join(name);
        let page = path.extension().is_some_and(|extension| extension == "md");
        let text = if page { &format!("{}\n\n{}\n", text.trim_end(), self.made()) } else { text };
        std::fs::write(&path, text).map_err(|source| unwritable(&path, &source))
    }

    /// The provenance paragraph of a page: commit, if known, and command.
    fn made(&self) -> String {
        let Experiment { name, seeded, .. } = self.experiment;
        let seeds = if seeded { format!(" --seeds {}", self.seeds) } else { String::new() };
        let command = format!("`cairn-sim experiment {name}{seeds} --out {}`", self.out.display());
        match &self.commit {
            Some(commit) => format!("Made at {commit} by `make bench`, which runs {command}."),
            None => format!("Made by {command}."),
        }
    }
}

fn unwritable(path: &Path, source: &std::io::Error) -> Failure {
    format!("{}: {source}; name a folder that can be written to with --out", path.display()).into()
}

#[cfg(test)]
mod tests {
    use super::{Experiment, Setting};

    /// Content of a file of this name after writing `text`.
    fn written(experiment: Experiment, commit: Option<&str>, name: &str, text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().to_owned();
        let commit = commit.map(str::to_owned);
        let setting = Setting { experiment, out, seeds: 3, progress: false, commit };
        setting.write(name, text).expect("the folder can be written to");
        let found = std::fs::read_to_string(folder.path().join(name)).expect("text");
        found.replace(folder.path().to_str().expect("text"), "FOLDER")
    }

    #[test]
    fn pages_end_with_a_provenance_paragraph() {
        let seeded = Experiment::new("gamma", "", |_| Ok(()));
        let page = |experiment, commit| written(experiment, commit, "page.md", "# Title\n\nText.\n\n");
        assert_eq!(
            page(seeded, Some("1cd6545")),
            "# Title\n\nText.\n\nMade at 1cd6545 by `make bench`, which runs `cairn-sim experiment gamma --seeds 3 --out FOLDER`.\n"
        );
        assert_eq!(
            page(seeded, None),
            "# Title\n\nText.\n\nMade by `cairn-sim experiment gamma --seeds 3 --out FOLDER`.\n"
        );
        assert_eq!(
            page(seeded.without_seeds(), None),
            "# Title\n\nText.\n\nMade by `cairn-sim experiment gamma --out FOLDER`.\n"
        );
    }

    #[test]
    fn other_files_are_written_unchanged() {
        assert_eq!(
            written(Experiment::new("gamma", "", |_| Ok(())), Some("1cd6545"), "rows.csv", "a\n"),
            "a\n"
        );
    }
}
