//! What devices say about themselves at one moment: the seam between those who ask them and those who tell it on.

use std::fmt;

/// The quantities of one device at one moment.
///
/// A device that does not answer has no reading, and a quantity that a device does not support is not in it:
/// never 0 in its place, never a sentinel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceReading {
    /// The id of the device in the NodeTopology.
    pub device: String,
    /// Each quantity at most once, with its value in the base unit that its name says.
    pub quantities: Vec<(Quantity, f64)>,
}

/// What can be measured of a device. Names end in units; those that only grow are counters since some past moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// The share of the last moment in which the device computed, 0 to 1.
    Utilization,
    /// The share of the last moment in which its memory was read or written, 0 to 1.
    MemoryUtilization,
    /// How much of its memory is taken.
    MemoryUsedBytes,
    /// What it consumed; a counter.
    EnergyJoules,
    /// What it consumes; only of devices that do not count energy.
    PowerWatts,
    /// What it may consume.
    PowerLimitWatts,
    /// How hot it is, by sensor.
    TemperatureCelsius {
        /// Where.
        sensor: Sensor,
    },
    /// How fast it ticks, by what ticks.
    ClockHertz {
        /// What ticks.
        domain: ClockDomain,
    },
    /// For how long it was slowed down, by reason; a counter.
    ThrottleSeconds {
        /// Why.
        reason: ThrottleReason,
    },
    /// What went wrong, by kind; a counter.
    Errors {
        /// What.
        kind: ErrorKind,
    },
    /// XID errors of one number; a counter.
    XidErrors {
        /// What NVIDIA's list calls it.
        xid: u16,
    },
    /// What went out through a link; a counter.
    LinkTransmitBytes {
        /// The number that the device gives the link.
        link: u32,
    },
    /// What came in through a link; a counter.
    LinkReceiveBytes {
        /// The number that the device gives the link.
        link: u32,
    },
}

/// For people, as in `temperature_celsius core`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utilization => f.write_str("utilization"),
            Self::MemoryUtilization => f.write_str("memory_utilization"),
            Self::MemoryUsedBytes => f.write_str("memory_used_bytes"),
            Self::EnergyJoules => f.write_str("energy_joules"),
            Self::PowerWatts => f.write_str("power_watts"),
            Self::PowerLimitWatts => f.write_str("power_limit_watts"),
            Self::TemperatureCelsius { sensor } => write!(f, "temperature_celsius {}", <&str>::from(sensor)),
            Self::ClockHertz { domain } => write!(f, "clock_hertz {}", <&str>::from(domain)),
            Self::ThrottleSeconds { reason } => write!(f, "throttle_seconds {}", <&str>::from(reason)),
            Self::Errors { kind } => write!(f, "errors {}", <&str>::from(kind)),
            Self::XidErrors { xid } => write!(f, "xid_errors {xid}"),
            Self::LinkTransmitBytes { link } => write!(f, "link_transmit_bytes {link}"),
            Self::LinkReceiveBytes { link } => write!(f, "link_receive_bytes {link}"),
        }
    }
}

/// Where a temperature is taken: a value of the label `sensor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Sensor {
    /// In the chip that computes.
    Core,
    /// In its memory.
    Memory,
}

/// What ticks: a value of the label `domain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ClockDomain {
    /// What computes.
    Compute,
    /// Its memory.
    Memory,
}

/// Why a device was slowed down: a value of the label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ThrottleReason {
    /// It would consume more than it may.
    Power,
    /// It is too hot.
    Thermal,
    /// Anything else: its board, its supply, its operator.
    Other,
}

/// What went wrong: a value of the label `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorKind {
    /// Memory errors that were put right.
    EccCorrected,
    /// Memory errors that were not.
    EccUncorrected,
    /// Packets that were sent again over PCIe.
    PcieReplay,
    /// What NVIDIA's driver calls an XID error, since the agent watches.
    Xid,
}
