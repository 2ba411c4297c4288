//! Device readings at one moment.

use std::fmt;

/// The quantities of one device at one moment.
///
/// A device that does not respond has no reading. An unsupported quantity is absent rather than 0 or a sentinel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceReading {
    /// The id of the device in the NodeTopology.
    pub device: String,
    /// Each quantity at most once, in the base unit of its name.
    pub quantities: Vec<(Quantity, f64)>,
}

/// The quantities of a device. Names end in units; monotonic ones are counters since some past moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// The share of the last sample period in which the device computed, 0 to 1.
    Utilization,
    /// The share of the last sample period in which its memory was accessed, 0 to 1.
    MemoryUtilization,
    /// Memory in use.
    MemoryUsedBytes,
    /// Consumed energy; a counter.
    EnergyJoules,
    /// Power draw; only of devices that do not count energy.
    PowerWatts,
    /// The power limit.
    PowerLimitWatts,
    /// Temperature by sensor.
    TemperatureCelsius {
        /// The sensor.
        sensor: Sensor,
    },
    /// Clock frequency by domain.
    ClockHertz {
        /// The domain.
        domain: ClockDomain,
    },
    /// Throttled time by reason; a counter.
    ThrottleSeconds {
        /// The reason.
        reason: ThrottleReason,
    },
    /// Errors by kind; a counter.
    Errors {
        /// The kind.
        kind: ErrorKind,
    },
    /// XID errors of one number; a counter.
    XidErrors {
        /// The number in NVIDIA's list.
        xid: u16,
    },
    /// Bytes sent over a link; a counter.
    LinkTransmitBytes {
        /// The link's number on the device.
        link: u32,
    },
    /// Bytes received over a link; a counter.
    LinkReceiveBytes {
        /// The link's number on the device.
        link: u32,
    },
}

impl Quantity {
    /// Whether it counts errors. Error counters are kept for lost devices.
    pub fn is_error_count(self) -> bool {
        matches!(self, Self::Errors { .. } | Self::XidErrors { .. })
    }
}

/// As shown in a table, such as `temperature_celsius core`.
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

/// A temperature sensor: a value of the label `sensor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Sensor {
    /// In the processor.
    Core,
    /// In its memory.
    Memory,
}

/// A clock domain: a value of the label `domain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ClockDomain {
    /// The processor.
    Compute,
    /// Its memory.
    Memory,
}

/// Why a device was throttled: a value of the label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ThrottleReason {
    /// The power limit.
    Power,
    /// Heat.
    Thermal,
    /// Any other: its board, its supply, its operator.
    Other,
}

/// A kind of error: a value of the label `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorKind {
    /// Corrected memory errors.
    EccCorrected,
    /// Uncorrected memory errors.
    EccUncorrected,
    /// PCIe replays.
    PcieReplay,
    /// XID errors of NVIDIA's driver, since the agent started to watch.
    Xid,
}
