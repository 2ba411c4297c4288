//! Machines described in files: NodeTopology manifests, which are polled for changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crds::NodeTopologySpec;

use super::{Problem, ProblemReason, Reading, Source, SourceError, document};

/// The maximum size of a file. A file with 4,000 nodes of ten devices is far below it.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A file or a folder of files (`.yaml`, `.yml`, `.json`; hidden ones and subfolders are ignored).
///
/// An invalid or unreadable file keeps its last valid content; a removed file removes its nodes. A change must be
/// observed twice in a row: a half-written file, or one that an editor is replacing, must not remove devices.
#[derive(Debug)]
pub struct Described {
    path: PathBuf,
    files: BTreeMap<PathBuf, File>,
    /// Whether the path was read before. The first state is applied immediately.
    was_read: bool,
}

/// The record of one file.
#[derive(Debug, Default)]
struct File {
    /// The last fingerprint; `None` if the file was missing.
    seen: Option<Stamp>,
    /// The fingerprint at which `topologies` and `problem` were read.
    applied: Option<Stamp>,
    topologies: Vec<(String, Arc<NodeTopologySpec>)>,
    problem: Option<Problem>,
}

/// A listing of the path without the content of files.
#[derive(Debug, Default)]
struct Listing {
    stamps: BTreeMap<PathBuf, Stamp>,
    /// Files that cannot be accessed, whose existence is unknown.
    unreadable: BTreeMap<PathBuf, Problem>,
}

/// The fingerprint of a file's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    /// The change time, which unlike the modification time covers permissions.
    changed: (i64, i64),
}

impl Described {
    /// Reads nothing yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), files: BTreeMap::new(), was_read: false }
    }

    /// Lists the present files. A missing single file yields an empty list, as in a folder.
    fn list(&self) -> Result<Listing, SourceError> {
        let unreadable = |source| SourceError::Unreadable { path: self.path.display().to_string(), source };
        let mut listing = Listing::default();
        let metadata = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.was_file() => return Ok(listing),
            other => other.map_err(unreadable)?,
        };
        if !metadata.is_dir() {
            listing.stamps.insert(self.path.clone(), Stamp::of(&metadata));
            return Ok(listing);
        }
        for entry in fs::read_dir(&self.path).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if !is_manifest(&path) {
                continue;
            }
            match fs::metadata(&path) {
                // A file that vanished since the listing, or a dangling link, is missing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    listing.unreadable.insert(path, unreadable_file(&error));
                }
                Ok(metadata) if metadata.is_file() => {
                    listing.stamps.insert(path, Stamp::of(&metadata));
                }
                Ok(_) => {}
            }
        }
        Ok(listing)
    }

    fn was_file(&self) -> bool {
        self.files.contains_key(&self.path)
    }

    fn reading(&self, unreadable: BTreeMap<PathBuf, Problem>) -> Reading {
        let mut reading = Reading::default();
        let mut described_by = BTreeMap::<&str, &Path>::new();
        for (path, file) in &self.files {
            let place = path.display().to_string();
            if let Some(problem) = &file.problem {
                reading.problems.insert(place.clone(), problem.clone());
            }
            for (node, spec) in &file.topologies {
                if let Some(other) = described_by.get(node.as_str()) {
                    let message = format!(
                        "the node `{node}` is already described by {}, which is used; keep one of the two",
                        other.display()
                    );
                    let problem = Problem { reason: ProblemReason::Duplicate, message };
                    reading.problems.entry(place.clone()).or_insert(problem);
                    continue;
                }
                described_by.insert(node, path);
                reading.topologies.insert(node.clone(), Arc::clone(spec));
            }
        }
        let unreadable = unreadable.into_iter().map(|(path, problem)| (path.display().to_string(), problem));
        reading.problems.extend(unreadable);
        reading
    }
}

impl Source for Described {
    fn name(&self) -> &'static str {
        "described"
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        let Listing { stamps, unreadable } = self.list()?;
        let paths: BTreeSet<PathBuf> = self.files.keys().chain(stamps.keys()).cloned().collect();
        for path in paths.into_iter().filter(|path| !unreadable.contains_key(path)) {
            let now = stamps.get(&path).copied();
            let file = self.files.entry(path.clone()).or_default();
            let settled = file.seen == now || !self.was_read;
            file.seen = now;
            if settled && file.applied != now {
                file.apply(&path, now);
            }
        }
        // A file that was named explicitly is kept, as it may return.
        self.files.retain(|path, file| file.seen.is_some() || file.applied.is_some() || *path == self.path);
        self.was_read = true;
        Ok(self.reading(unreadable))
    }
}

impl File {
    fn apply(&mut self, path: &Path, now: Option<Stamp>) {
        let read = match now {
            None => Ok(Vec::new()),
            Some(stamp) => read_file(path, stamp),
        };
        match read {
            Ok(topologies) => {
                self.topologies = topologies.into_iter().map(|(node, spec)| (node, Arc::new(spec))).collect();
                self.problem = None;
            }
            Err(problem) => self.problem = Some(problem),
        }
        self.applied = now;
    }
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn read_file(path: &Path, stamp: Stamp) -> Result<Vec<(String, NodeTopologySpec)>, Problem> {
    if stamp.bytes > MAX_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_BYTES}; split it", stamp.bytes);
        return Err(Problem { reason: ProblemReason::Malformed, message });
    }
    let malformed = |message| Problem { reason: ProblemReason::Malformed, message };
    let text = fs::read_to_string(path).map_err(|error| unreadable_file(&error))?;
    let topologies = document::parse(&text).map_err(malformed)?;
    if topologies.is_empty() {
        // An empty file may be half written.
        return Err(malformed("the file describes no node; describe one, or remove the file".to_owned()));
    }
    Ok(topologies)
}

fn unreadable_file(error: &io::Error) -> Problem {
    let reason = match error.kind() {
        io::ErrorKind::PermissionDenied => ProblemReason::Denied,
        io::ErrorKind::InvalidData => ProblemReason::Malformed,
        _ => ProblemReason::Unreadable,
    };
    Problem { reason, message: error.to_string() }
}

fn is_manifest(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: cairn.dev/v1alpha1\nkind: NodeTopology\nmetadata: {name: NODE}\nspec: {devices: [DEVICES]}\n";

    fn write(folder: &Path, file: &str, node: &str, devices: &str) {
        let text = GOOD.replace("NODE", node).replace("DEVICES", devices);
        fs::write(folder.join(file), text).unwrap();
    }

    /// The second of two readings, in which a change is applied.
    fn settled(source: &mut Described) -> Reading {
        source.read().unwrap();
        source.read().unwrap()
    }

    fn summary(reading: &Reading) -> Vec<String> {
        reading.topologies.iter().map(|(node, spec)| format!("{node}: {}", spec.summary())).collect()
    }

    #[test]
    fn a_folder_serves_its_files_and_follows_them() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}, {id: gpu-1, type: GPU}");
        write(folder.path(), "b.yml", "b", "{id: fpga-0, type: FPGA}");
        fs::write(folder.path().join(".hidden.yaml"), "not read").unwrap();
        fs::write(folder.path().join("README.md"), "not read").unwrap();
        let mut source = Described::new(folder.path());
        assert_eq!(summary(&source.read().unwrap()), ["a: 2 GPU", "b: 1 FPGA"]);

        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
        assert_eq!(summary(&source.read().unwrap()), ["a: 2 GPU", "b: 1 FPGA"], "observed once");
        assert_eq!(summary(&source.read().unwrap()), ["a: 1 GPU", "b: 1 FPGA"], "observed twice");

        fs::remove_file(folder.path().join("b.yml")).unwrap();
        write(folder.path(), "c.json", "c", "");
        assert_eq!(summary(&settled(&mut source)), ["a: 1 GPU", "c: "]);
        assert!(source.read().unwrap().problems.is_empty());
    }

    #[test]
    fn a_malformed_file_keeps_its_last_valid_content_and_affects_no_other() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
        write(folder.path(), "b.yaml", "b", "{id: gpu-0, type: GPU}");
        let mut source = Described::new(folder.path());
        source.read().unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU, health: bad}");
        write(folder.path(), "b.yaml", "b", "");
        let reading = settled(&mut source);
        assert_eq!(summary(&reading), ["a: 1 GPU", "b: "]);
        let problem = &reading.problems[&folder.path().join("a.yaml").display().to_string()];
        assert_eq!(problem.reason, ProblemReason::Malformed);
        assert!(
            problem.message.starts_with("document 1: spec.devices[0].health: unknown variant `bad`"),
            "{problem}"
        );

        write(folder.path(), "a.yaml", "a", "");
        let reading = settled(&mut source);
        assert_eq!(summary(&reading), ["a: ", "b: "]);
        assert!(reading.problems.is_empty());
    }

    #[test]
    fn a_file_that_is_missing_once_is_kept_and_one_that_is_missing_twice_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
        let path = folder.path().join("a.yaml");
        for source in [&mut Described::new(&path), &mut Described::new(folder.path())] {
            write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
            source.read().unwrap();
            fs::remove_file(&path).unwrap();
            assert_eq!(summary(&source.read().unwrap()), ["a: 1 GPU"]);
            write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
            assert_eq!(summary(&settled(source)), ["a: 1 GPU"]);
            fs::remove_file(&path).unwrap();
            assert!(settled(source).topologies.is_empty());
            write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
            assert_eq!(summary(&settled(source)), ["a: 1 GPU"], "the file may return");
        }
    }

    #[test]
    fn a_file_that_describes_no_node_keeps_its_last_valid_content() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
        let path = folder.path().join("a.yaml");
        let mut source = Described::new(&path);
        source.read().unwrap();
        for blank in ["", "\n", "---\n", "# a machine, soon\n", " \n---\n---\n"] {
            fs::write(&path, blank).unwrap();
            let reading = settled(&mut source);
            assert_eq!(summary(&reading), ["a: 1 GPU"], "{blank:?}");
            let problem = &reading.problems[&path.display().to_string()];
            assert_eq!(problem.reason, ProblemReason::Malformed, "{blank:?}: {problem}");
        }
    }

    #[test]
    fn unreadable_files_keep_their_nodes() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
        write(folder.path(), "b.yaml", "b", "");
        let mut source = Described::new(folder.path());
        source.read().unwrap();
        let path = folder.path().join("a.yaml");
        fs::remove_file(&path).unwrap();
        // symbolic links to themselves cannot be read
        for name in ["a.yaml", "new.yaml"] {
            std::os::unix::fs::symlink(name, folder.path().join(name)).unwrap();
        }
        write(folder.path(), "b.yaml", "b", "{id: fpga-0, type: FPGA}");
        let reading = settled(&mut source);
        assert_eq!(summary(&reading), ["a: 1 GPU", "b: 1 FPGA"], "other files are updated");
        assert_eq!(summary(&settled(&mut source)), ["a: 1 GPU", "b: 1 FPGA"]);
        for name in ["a.yaml", "new.yaml"] {
            let problem = &reading.problems[&folder.path().join(name).display().to_string()];
            assert_eq!(problem.reason, ProblemReason::Unreadable, "{problem}");
        }
        fs::remove_file(&path).unwrap();
        fs::remove_file(folder.path().join("new.yaml")).unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
        assert_eq!(summary(&source.read().unwrap()), ["a: 1 GPU", "b: 1 FPGA"]);
        assert!(source.read().unwrap().problems.is_empty());
    }

    #[test]
    fn a_node_in_two_files_is_a_problem_of_the_second() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.yaml", "a", "{id: gpu-0, type: GPU}");
        write(folder.path(), "b.yaml", "a", "");
        let reading = Described::new(folder.path()).read().unwrap();
        assert_eq!(summary(&reading), ["a: 1 GPU"]);
        let problem = &reading.problems[&folder.path().join("b.yaml").display().to_string()];
        assert_eq!(problem.reason, ProblemReason::Duplicate);
        let first = folder.path().join("a.yaml");
        let expected = format!(
            "the node `a` is already described by {}, which is used; keep one of the two",
            first.display()
        );
        assert_eq!(problem.message, expected);
    }

    #[test]
    fn a_missing_path_is_an_error_with_a_remedy() {
        let error = Described::new("/nowhere/at-all").read().unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read /nowhere/at-all: No such file or directory (os error 2); \
             --simulate takes a file of NodeTopology manifests or a folder of such files"
        );
    }

    /// The demo's output contains the devices of these machines.
    #[test]
    fn the_examples_describe_the_four_nodes_of_the_demo() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/topologies");
        let reading = Described::new(folder).read().unwrap();
        assert!(reading.problems.is_empty(), "{:?}", reading.problems);
        assert_eq!(
            summary(&reading),
            [
                "cairn-cpu: 1 NUMA Domain",
                "cairn-fpga: 1 FPGA, 1 NUMA Domain",
                "cairn-gpu: 2 GPU, 1 NUMA Domain",
                "cairn-numa: 2 NUMA Domain",
            ]
        );
    }
}
