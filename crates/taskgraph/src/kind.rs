//! Kinds of processing elements.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a processing element: a CPU core, one of CEDR's accelerators, or any other by name.
///
/// The order is CEDR's (cores, FFT, MMULT, GPU), then all others by name; it numbers a pool and breaks ties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Kind {
    /// A core of a CPU.
    Cpu,
    /// An accelerator for Fast Fourier Transforms.
    Fft,
    /// An accelerator for matrix products.
    Mmult,
    /// A GPU.
    Gpu,
    /// Any other, a DNS label.
    Other(String),
}

impl Kind {
    /// The name in files.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Fft => "fft",
            Self::Mmult => "mmult",
            Self::Gpu => "gpu",
            Self::Other(name) => name,
        }
    }

    /// Prefix of the names of such processing elements in results: `Core`, `FFT`, ….
    pub fn title(&self) -> &str {
        match self {
            Self::Cpu => "Core",
            Self::Fft => "FFT",
            Self::Mmult => "MMULT",
            Self::Gpu => "GPU",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.as_str().to_owned()
    }
}

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        match name.as_str() {
            "cpu" => return Ok(Self::Cpu),
            "fft" => return Ok(Self::Fft),
            "mmult" => return Ok(Self::Mmult),
            "gpu" => return Ok(Self::Gpu),
            _ => {}
        }
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let label = !name.is_empty()
            && name.len() <= 63
            && name.starts_with(inner)
            && name.ends_with(inner)
            && name.chars().all(|c| inner(c) || c == '-');
        if label {
            return Ok(Self::Other(name));
        }
        Err(format!(
            "`{name}` is not a kind; a kind is cpu, fft, mmult, gpu or another DNS label (a-z, 0-9, -, at most 63)"
        ))
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::try_from(name.to_owned())
    }
}
