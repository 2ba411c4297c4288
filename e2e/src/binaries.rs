//! The tools of the control plane, built once from pinned Go modules into a cache outside the tree.
//!
//! The cache is `$CAIRN_CACHE`, else `$XDG_CACHE_HOME/cairn`, else `~/.cache/cairn`. Each set of tools is in
//! `bin/NAME-VERSION-HASH/`, where the hash covers all inputs of the build (module files, flags,
//! platform): a changed pin triggers a build, an unchanged one is a cache hit. A folder is created atomically,
//! and a lock excludes concurrent builds.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    command::{self, CommandFailed},
    keeper, wait,
};

pub use sets::{NODE_SETS, PROMETHEUS, SETS, Set};

mod sets;

/// The built tools by name.
#[derive(Clone, Debug)]
pub struct Binaries(BTreeMap<&'static str, PathBuf>);

impl Binaries {
    /// The file of a tool, for example `kubectl`; the names are those of [`SETS`].
    pub fn path(&self, name: &str) -> Result<&Path> {
        let known = || self.0.keys().copied().collect::<Vec<_>>().join(", ");
        self.0
            .get(name)
            .map(PathBuf::as_path)
            .with_context(|| format!("no tool `{name}`; there are {}", known()))
    }

    /// Every tool and its file, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.0.iter().map(|(name, path)| (*name, path.as_path()))
    }
}

/// Finds all tools of a control plane and builds missing ones; with `real_nodes` also
/// those of real nodes. Reports builds on stderr.
pub async fn ensure(real_nodes: bool) -> Result<Binaries> {
    let nodes = NODE_SETS.into_iter().filter(|_| real_nodes);
    ensure_in(&cache()?, &SETS.into_iter().chain(nodes).collect::<Vec<_>>()).await
}

/// Finds `prometheus` and `promtool`, and builds them if missing.
pub async fn ensure_prometheus() -> Result<Binaries> {
    ensure_in(&cache()?, &[PROMETHEUS]).await
}

/// As [`ensure`], in this cache and for these sets.
async fn ensure_in(cache: &Path, sets: &[Set]) -> Result<Binaries> {
    let missing = |set: &&Set| !set.folder(cache).is_dir();
    if sets.iter().any(|set| missing(&set)) {
        fs::create_dir_all(cache.join("bin")).with_context(|| cannot_write(cache))?;
        let _lock = lock(cache).await?;
        let go = find_go()?;
        let workshop = cache.join("build");
        // check again: the previous owner of the lock may have built them
        for set in sets.iter().filter(missing) {
            build(&go, set, &workshop, &set.folder(cache)).await.with_context(|| {
                format!(
                    "cannot build {}. What was compiled so far is kept in {}",
                    set.name,
                    workshop.display()
                )
            })?;
        }
        // gigabytes of compiled packages, useless once everything is built
        remove(&workshop)?;
    }
    let files = sets.iter().flat_map(|set| {
        let folder = set.folder(cache);
        set.tools.iter().map(move |(name, _)| (*name, folder.join(name)))
    });
    Ok(Binaries(files.collect()))
}

/// KWOK's standard stages of nodes and pods, which its binary does not embed: a `--config` for it.
pub fn kwok_stages(binaries: &Binaries) -> Result<PathBuf> {
    Ok(binaries.path("kwok")?.with_file_name(sets::KWOK_STAGES))
}

fn cache() -> Result<PathBuf> {
    let from = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = from("CAIRN_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|folder| folder.join("cairn")))
        .or_else(|| from("HOME").map(|folder| folder.join(".cache/cairn")))
        .context("neither CAIRN_CACHE nor HOME is set: set CAIRN_CACHE to a folder for built tools")?;
    std::path::absolute(&cache).with_context(|| format!("no such path: {}", cache.display()))
}

fn cannot_write(cache: &Path) -> String {
    format!("cannot write to {}: set CAIRN_CACHE to a folder that you may write to", cache.display())
}

/// The limit for waiting on another build: longer than a full build on a slow machine.
const LOCK_LIMIT: Duration = Duration::from_hours(1);

/// Locks the cache until the file is dropped; reports when it has to wait.
async fn lock(cache: &Path) -> Result<File> {
    let file = File::create(cache.join("build.lock")).with_context(|| cannot_write(cache))?;
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        eprintln!("another process builds the tools in {}: waiting for it", cache.display());
    }
    let locked = wait::until(LOCK_LIMIT, async || file.try_lock()).await;
    locked.map_err(|seen| anyhow::anyhow!("cannot lock {}: {seen}", cache.display()))?;
    Ok(file)
}

/// Builds one set in `workshop` and moves the result to `folder` atomically.
async fn build(go: &Path, set: &Set, workshop: &Path, folder: &Path) -> Result<()> {
    let module = workshop.join(set.name);
    let out = workshop.join(format!("{}-out", set.name));
    remove(&out)?;
    fs::create_dir_all(&module)
        .and_then(|()| fs::create_dir_all(&out))
        .with_context(|| cannot_write(workshop))?;
    fs::write(module.join("go.mod"), set.pins.go_mod)?;
    fs::write(module.join("go.sum"), set.pins.go_sum)?;
    if let Some(main) = set.main {
        fs::write(module.join("main.go"), main)?;
    }
    let started = Instant::now();
    if let Some((library, package)) = set.links {
        let known = std::process::Command::new("pkg-config").args(["--exists", library]).status();
        if !known.is_ok_and(|status| status.success()) {
            bail!("pkg-config finds no {library}: install pkg-config and {package}");
        }
    }
    let tags = format!("-tags={}", set.tags.join(","));
    for (tool, package) in set.tools {
        eprintln!(
            "building {tool} {} (once; all of {} takes about {} min on two cores)",
            set.version(),
            set.name,
            set.minutes
        );
        let file = out.join(tool);
        let flags = format!("-ldflags={}", set.linker_flags());
        let file =
            file.to_str().context("the cache's path is not UTF-8: set CAIRN_CACHE to another folder")?;
        run_go(go, set, workshop, &["build", &flags, &tags, "-o", file, package]).await?;
    }
    if !set.extra.is_empty() {
        let module_folder = run_go(go, set, workshop, &["list", "-m", "-f", "{{.Dir}}", set.module]).await?;
        let mut text = String::new();
        for file in set.extra {
            let path = Path::new(module_folder.trim()).join(file);
            text += "---\n";
            text += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        }
        fs::write(out.join(sets::KWOK_STAGES), text)?;
    }
    eprintln!("built {} in {} s", set.name, started.elapsed().as_secs());
    fs::rename(&out, folder).with_context(|| format!("cannot move the tools to {}", folder.display()))
}

/// The Go toolchain.
fn find_go() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join("go")).find(|file| file.is_file());
    found.context(
        "the control plane's tools have to be built once, and `go` is not on the PATH: \
         install Go 1.26 or newer (https://go.dev/doc/install)",
    )
}

/// Runs the Go toolchain in the module of a set and returns its output.
///
/// It is killed with this process, and when the returned future is dropped.
async fn run_go(go: &Path, set: &Set, workshop: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = keeper::dying_with_us(go)?;
    command
        .args(arguments)
        .current_dir(workshop.join(set.name))
        .env("CGO_ENABLED", if set.links.is_some() { "1" } else { "0" })
        .env("GOCACHE", workshop.join("gocache"))
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("GOFLAGS", sets::GO_FLAGS);
    match command::run(command, "").await {
        Ok(output) => Ok(output.stdout),
        Err(error) => match error.downcast::<CommandFailed>() {
            Ok(CommandFailed { status, output, .. }) => {
                // hundreds of them precede the relevant line
                let matters = |line: &&str| !line.starts_with("go: downloading");
                let said: Vec<_> = output.stderr.lines().filter(matters).collect();
                bail!("`go {}` failed ({status}):\n{}", arguments.join(" "), said.join("\n"))
            }
            Err(error) => Err(error),
        },
    }
}

/// Removes a folder if it exists.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::sets::Pins;
    use super::{SETS, Set, ensure_in};

    fn kubeconform() -> Set {
        SETS.iter().find(|set| set.name == "kubeconform").unwrap().clone()
    }

    #[tokio::test]
    async fn cached_tools_are_not_rebuilt() {
        let cache = tempfile::tempdir().unwrap();
        let set = kubeconform();
        let folder = set.folder(cache.path());
        std::fs::create_dir_all(&folder).unwrap();
        let binaries = ensure_in(cache.path(), &[set]).await.unwrap();
        assert_eq!(binaries.path("kubeconform").unwrap(), folder.join("kubeconform"));
        let error = binaries.path("kubectl").unwrap_err().to_string();
        assert_eq!(error, "no tool `kubectl`; there are kubeconform");
    }

    #[tokio::test]
    async fn a_failed_build_leaves_the_cache_empty() {
        let cache = tempfile::tempdir().unwrap();
        // no module that contains the package
        let set = Set {
            pins: Pins { go_mod: "module broken\n\ngo 1.26.0\n", ..kubeconform().pins },
            ..kubeconform()
        };
        let error = ensure_in(cache.path(), std::slice::from_ref(&set)).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot build kubeconform."), "{error:#}");
        assert!(!set.folder(cache.path()).exists());
    }
}
