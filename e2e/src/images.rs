//! Container images of programs of this machine: OCI archives, without a registry.
//!
//! A program is packed with its shared libraries at the same paths as on this machine, so the output of `cargo build`
//! runs in a container unchanged. `ctr images import` and `docker load` read the archive. It depends on
//! the files only: no clock, no user.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An image with one layer.
#[derive(Clone, Debug)]
pub struct Image {
    reference: String,
    entry_point: Vec<String>,
    /// The default user: `user:group` by number.
    user: String,
    /// The files, by absolute path in the image.
    files: BTreeMap<PathBuf, Content>,
}

#[derive(Clone, Debug)]
enum Content {
    /// A file of this machine, with its executable bit.
    Copy(PathBuf),
    /// The content of a program.
    Program(Vec<u8>),
    /// A world-readable text file.
    Text(String),
    /// A symbolic link to this path in the image.
    Link(PathBuf),
}

impl Image {
    /// An empty image, named `reference` (`registry.local/name:tag`), with the program at `entry_point`.
    pub fn new(reference: &str, entry_point: &str) -> Self {
        Self {
            reference: reference.to_owned(),
            entry_point: vec![entry_point.to_owned()],
            user: "0:0".to_owned(),
            files: BTreeMap::new(),
        }
    }

    /// Sets the default user and group; root otherwise.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    /// Adds a program of this machine at `place`, without debug information, and its shared
    /// libraries.
    ///
    /// Files that it loads at run time have to be added as a [`file`](Self::file).
    pub fn program(mut self, program: &Path, place: &str) -> Result<Self> {
        for library in libraries(program)? {
            self.files.insert(library.clone(), Content::Copy(library));
        }
        self.files.insert(place.into(), Content::Program(stripped(program)?));
        Ok(self)
    }

    /// Adds a file of this machine at `place`.
    #[must_use]
    pub fn file(mut self, file: &Path, place: &str) -> Self {
        self.files.insert(place.into(), Content::Copy(file.to_owned()));
        self
    }

    /// Adds a text as a file at `place`.
    #[must_use]
    pub fn text(mut self, text: &str, place: &str) -> Self {
        self.files.insert(place.into(), Content::Text(text.to_owned()));
        self
    }

    /// Adds a symbolic link at `place` to `target` in the image.
    #[must_use]
    pub fn link(mut self, target: &str, place: &str) -> Self {
        self.files.insert(place.into(), Content::Link(target.into()));
        self
    }

    /// Writes the image to `archive`.
    pub fn write(&self, archive: &Path) -> Result<()> {
        let layer = self.layer()?;
        let mut blobs = BTreeMap::new();
        let mut blob = |kind: &str, bytes: Vec<u8>| {
            let digest = format!("{:x}", Sha256::digest(&bytes));
            let descriptor = json!({"mediaType": format!("application/vnd.oci.image.{kind}"),
                "digest": format!("sha256:{digest}"), "size": bytes.len()});
            blobs.insert(digest, bytes);
            descriptor
        };
        let layer = blob("layer.v1.tar", layer);
        let config = json!({
            "architecture": architecture()?,
            "os": "linux",
            "config": {"Entrypoint": self.entry_point, "User": self.user},
            // for an uncompressed layer both digests are the same
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        });
        let config = blob("config.v1+json", config.to_string().into_bytes());
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": [layer]});
        let mut manifest = blob("manifest.v1+json", manifest.to_string().into_bytes());
        let tag = self.reference.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        manifest["annotations"] =
            json!({"io.containerd.image.name": self.reference, "org.opencontainers.image.ref.name": tag});
        let index: Value = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest]});

        let write = || -> std::io::Result<()> {
            let mut tar = tar::Builder::new(File::create(archive)?);
            append(&mut tar, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
            append(&mut tar, "index.json", 0o644, index.to_string().as_bytes())?;
            for (digest, bytes) in &blobs {
                append(&mut tar, format!("blobs/sha256/{digest}"), 0o644, bytes)?;
            }
            tar.into_inner()?.flush()
        };
        write().with_context(|| format!("cannot write the image {}", archive.display()))
    }

    /// All files as one archive, folders first.
    fn layer(&self) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        // mount points of a container, and a world-writable folder
        let folders: BTreeSet<_> =
            self.files.keys().flat_map(|place| place.ancestors().skip(1)).map(relative).collect();
        let always = ["dev", "etc", "proc", "sys", "tmp"].map(Path::new);
        for folder in folders.into_iter().chain(always).filter(|folder| *folder != Path::new("")) {
            let mode = if folder == Path::new("tmp") { 0o1777 } else { 0o755 };
            let mut header = header(tar::EntryType::Directory, mode, 0);
            tar.append_data(&mut header, folder, std::io::empty())?;
        }
        for (place, content) in &self.files {
            let (mode, bytes) = match content {
                Content::Link(target) => {
                    let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                    tar.append_link(&mut header, relative(place), target)?;
                    continue;
                }
                Content::Text(text) => (0o644, text.clone().into_bytes()),
                Content::Program(bytes) => (0o755, bytes.clone()),
                Content::Copy(file) => {
                    use std::os::unix::fs::PermissionsExt;
                    let read = || Ok((fs::metadata(file)?.permissions().mode(), fs::read(file)?));
                    let read: std::io::Result<_> = read();
                    let (mode, bytes) = read.with_context(|| format!("cannot read {}", file.display()))?;
                    (if mode & 0o100 == 0 { 0o644 } else { 0o755 }, bytes)
                }
            };
            append(&mut tar, relative(place), mode, &bytes)?;
        }
        tar.into_inner().context("cannot end the layer")
    }
}

fn relative(place: &Path) -> &Path {
    place.strip_prefix("/").unwrap_or(place)
}

fn append<W: Write>(
    tar: &mut tar::Builder<W>,
    path: impl AsRef<Path>,
    mode: u32,
    bytes: &[u8],
) -> std::io::Result<()> {
    tar.append_data(&mut header(tar::EntryType::Regular, mode, bytes.len() as u64), path, bytes)
}

/// Owned by root, dated 1970.
fn header(kind: tar::EntryType, mode: u32, bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// This machine's architecture, by its name in images.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => anyhow::bail!("no name for {other} in images is known here: add it"),
    }
}

/// A program without debug information, which is four fifths of it.
fn stripped(program: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("cannot make a folder for a stripped program")?;
    let copy = folder.path().join("program");
    let output = Command::new("strip").arg("-o").arg(&copy).arg(program).output();
    let output = output.context("cannot run `strip`: install binutils")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`strip {}` failed: {}", program.display(), said.trim());
    fs::read(&copy).with_context(|| format!("cannot read {}", copy.display()))
}

/// The shared libraries of `program` and the dynamic loader, as listed by `ldd`.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).env("LC_ALL", "C").output();
    let output = output.context("cannot run `ldd`: install glibc's tools (libc-bin)")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let is_static = [&said, &complaint].iter().any(|text| text.contains("not a dynamic executable"));
        ensure!(is_static && program.is_file(), "`ldd {}` failed: {complaint}", program.display());
        return Ok(Vec::new());
    }
    linked(&said).with_context(|| format!("{} cannot run in an image", program.display()))
}

/// Parses the output of `ldd`: `libc.so.6 => /lib/libc.so.6 (0x…)`, `/lib64/ld-linux.so.2 (0x…)`, and the kernel's own.
fn linked(ldd: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in ldd.lines().map(str::trim) {
        let place = line.rsplit_once(" => ").map_or(line, |(_, place)| place);
        ensure!(place != "not found", "a library is not there: {line}");
        let file = place.split(" (").next().unwrap_or(place);
        if file.starts_with('/') {
            found.push(file.into());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read, path::Path};

    use super::{Image, linked};

    /// The files of an archive, by path, with their modes.
    fn unpack(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let path = entry.path().unwrap().display().to_string();
            (path, (entry.header().mode().unwrap(), content))
        });
        entries.collect()
    }

    #[test]
    fn an_image_archive_links_its_index_to_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("image.tar");
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        let image = Image::new("registry.local/sh:e2e", "/sh").program(&shell, "/sh").unwrap();
        image.text("hello", "/etc/deep/text").link("/sh", "/bin/ash").write(&archive).unwrap();

        let files = unpack(&std::fs::read(&archive).unwrap());
        let json = |name: &str| serde_json::from_slice::<serde_json::Value>(&files[name].1).unwrap();
        let blob = |value: &serde_json::Value| {
            let digest = value["digest"].as_str().unwrap();
            let name = format!("blobs/{}", digest.replace(':', "/"));
            assert_eq!(files[&name].1.len(), usize::try_from(value["size"].as_u64().unwrap()).unwrap());
            name
        };
        let manifest = &json("index.json")["manifests"][0];
        assert_eq!(manifest["annotations"]["io.containerd.image.name"], "registry.local/sh:e2e");
        let manifest = json(&blob(manifest));
        let config = json(&blob(&manifest["config"]));
        assert_eq!(config["config"]["Entrypoint"][0], "/sh");
        let layer = &manifest["layers"][0];
        assert_eq!(config["rootfs"]["diff_ids"][0], layer["digest"]);
        let layer = unpack(&files[&blob(layer)].1);
        let (mode, program) = &layer["sh"];
        assert_eq!((*mode, program.starts_with(b"\x7fELF")), (0o755, true));
        assert_eq!(layer["etc/deep/text"], (0o644, b"hello".to_vec()));
        assert_eq!(layer["tmp"].0, 0o1777);
        assert_eq!(layer["bin/ash"], (0o777, Vec::new()), "a link");
        assert!(layer.keys().any(|path| path.contains("libc.so")), "{:?}", layer.keys());

        let again = folder.path().join("again.tar");
        image_again(&shell).write(&again).unwrap();
        assert_eq!(
            std::fs::read(archive).unwrap(),
            std::fs::read(again).unwrap(),
            "the same files, the same image"
        );
    }

    fn image_again(shell: &Path) -> Image {
        let image = Image::new("registry.local/sh:e2e", "/sh").text("hello", "/etc/deep/text");
        image.link("/sh", "/bin/ash").program(shell, "/sh").unwrap()
    }

    #[test]
    fn ldd_output_is_parsed() {
        let said = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let libraries = linked(said).unwrap();
        assert_eq!(
            libraries,
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(std::path::PathBuf::from)
        );
        let missing = linked("\tlibhwloc.so.15 => not found\n").unwrap_err();
        assert_eq!(missing.to_string(), "a library is not there: libhwloc.so.15 => not found");
        assert_eq!(linked("\tstatically linked\n").unwrap(), Vec::<std::path::PathBuf>::new());
    }
}
