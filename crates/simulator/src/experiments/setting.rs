//! Where an experiment writes, and how much it does.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What goes wrong in an experiment; people read it, nobody matches on it.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name on the command line and the stem of the files that it writes.
    pub name: &'static str,
    /// One line for people who choose; its first word is the paper, and names the folder of the results.
    pub summary: &'static str,
    /// Whether chance plays a part, so that it is tried with several seeds.
    pub seeded: bool,
    /// Runs it.
    pub run: fn(&Setting) -> Result<(), Failure>,
}

impl Experiment {
    /// An experiment by its parts, tried with several seeds.
    #[must_use]
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        run: fn(&Setting) -> Result<(), Failure>,
    ) -> Self {
        Self { name, summary, seeded: true, run }
    }

    /// The same with one outcome, whatever the seeds.
    #[must_use]
    pub const fn without_seeds(self) -> Self {
        Self { seeded: false, ..self }
    }
}

/// Where an experiment writes and how much it may do.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Which experiment it is.
    pub experiment: Experiment,
    /// The folder of its files; it exists.
    pub out: PathBuf,
    /// How many seeds are tried where chance plays a part.
    pub seeds: u64,
    /// Whether progress is shown on standard error.
    pub progress: bool,
    /// The commit that pages say they were made at, where one is known.
    pub commit: Option<String>,
}

impl Setting {
    /// Says on standard error how many of all pieces are ready, where progress is shown.
    pub fn tell(&self, done: usize, all: usize) {
        if self.progress {
            // That nobody can read it is no error.
            let _ =
                write!(std::io::stderr(), "\r{done} of {all} runs {}", if done == all { "\n" } else { "" });
        }
    }

    /// Writes one file of the results; a page, which is Markdown, says last how it was made.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.out.join(name);
        let page = path.extension().is_some_and(|extension| extension == "md");
        let text = if page { &format!("{}\n\n{}\n", text.trim_end(), self.made()) } else { text };
        std::fs::write(&path, text).map_err(|source| unwritable(&path, &source))
    }

    /// The last paragraph of a page: at which commit it was made, where one is known, and by which command.
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

    /// What is in a file of this name when `text` was written to it.
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
    fn a_page_says_last_how_it_was_made() {
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
    fn other_files_are_as_they_are_given() {
        assert_eq!(
            written(Experiment::new("gamma", "", |_| Ok(())), Some("1cd6545"), "rows.csv", "a\n"),
            "a\n"
        );
    }
}
