//! `shapes FOLDER [SEED]`: writes worlds of eight shapes as instances, `NAME.json.gz` each.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use placement::file::SnapshotFile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("shapes FOLDER [SEED]: names no folder")?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    for (name, world) in testkit::shapes(seed) {
        let path = Path::new(&folder).join(format!("{name}.json.gz"));
        let file = SnapshotFile { name: Some(name), ..world.file().clone() };
        // No time and no name in it: the same world, the same bytes.
        let mut packed = GzBuilder::new().write(File::create(&path)?, Compression::best());
        serde_json::to_writer(&mut packed, &file)?;
        packed.finish()?.flush()?;
    }
    Ok(())
}
