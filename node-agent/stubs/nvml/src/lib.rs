//! A stub of `libnvidia-ml.so.1` with the functions that the node agent calls, and with their failures.
//!
//! `CAIRN_STUB_NVML` has settings, or `@FILE` with settings. The file is read at each call, so that a test can lose a GPU
//! during a probe.
//!
//! | setting | effect |
//! |---|---|
//! | `gpus=N` | the number of GPUs; two by default |
//! | `no-driver`, `denied`, `mismatch` | initialization fails: no driver, no permission, or a driver of another version |
//! | `gone=I` | GPU I is not listed |
//! | `withheld=I` | GPU I is counted, but has no handle |
//! | `lost=I` | GPU I has fallen off the bus: only its name and an energy of 0 can be read |
//! | `mig=I` | GPU I has two MIG partitions |
//! | `mig-fails=mode`, `mig-fails=list` | reading the MIG mode of that GPU, or its list of partitions, fails |
//! | `c2c=N` | each GPU has N links to the processors, the last of which is down |
//! | `old` | an old GPU: no energy, throttling, fields and events, but the older counters of NVLinks |
//! | `worn=I` | memory of GPU I failed and could not be replaced |
//! | `xids=N` | GPU 1 has reported N XID errors |
//! | `version=V` | the driver has another version |
//! | `device=FILE` | the file is open while the library is initialized, as `/dev/nvidiactl` is with NVIDIA's |
//! | `hang` | reading memory blocks while it is set |
//! | `garbage` | all values are out of range |
//! | `crash=start`, `crash=memory`, `crash=events` | the process ends by SIGSEGV at initialization, when memory is read, or when events are read |

#![allow(non_snake_case, reason = "the names are NVIDIA's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "they are called as NVIDIA's header says, with pointers that are valid"
)]

mod partitions_and_links;

pub use partitions_and_links::*;

use std::{
    ffi::{c_char, c_int, c_uint, c_ulonglong},
    fs, ptr,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

type Return = c_uint;
/// A GPU's index plus one; of a partition, 256 times that, plus its own index plus one.
type Device = usize;

const SUCCESS: Return = 0;
const INVALID_ARGUMENT: Return = 2;
const NOT_SUPPORTED: Return = 3;
const NO_PERMISSION: Return = 4;
const NOT_FOUND: Return = 6;
const DRIVER_NOT_LOADED: Return = 9;
const TIMEOUT: Return = 10;
const GPU_IS_LOST: Return = 15;
const LIB_RM_VERSION_MISMATCH: Return = 18;
const UNKNOWN: Return = 999;

const GIB: u64 = 1 << 30;

/// Field ids of NVML: failed memory rows, memory temperature, and the speed of NVLinks.
const ROW_REMAP_FAILURE: c_uint = 145;
const MEMORY_TEMPERATURE: c_uint = 82;
const NVLINK_MBPS: c_uint = 90;
/// The number of links to the processors, and the state and the speed of each in MB/s; the scope is its number.
const C2C_COUNT: c_uint = 170;
const C2C_STATUS: c_uint = 171;
const C2C_MBPS: c_uint = 172;
/// KiB sent and received over an NVLink; the scope is its number.
const NVLINK_SENT: c_uint = 138;
const NVLINK_RECEIVED: c_uint = 139;

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlUtilization_t`.
#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlViolationTime_t`.
#[repr(C)]
pub struct Violation {
    reference_microseconds: c_ulonglong,
    nanoseconds: c_ulonglong,
}

/// `nvmlDeviceAttributes_t`.
#[repr(C)]
pub struct Attributes {
    multiprocessors: c_uint,
    others: [c_uint; 7],
    memory_mib: c_ulonglong,
}

/// `nvmlFieldValue_t`, whose value is a union; here always its unsigned member.
#[repr(C)]
pub struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    value_type: c_uint,
    result: Return,
    value: u64,
}

/// `nvmlNvLinkUtilizationControl_t`.
#[repr(C)]
pub struct UtilizationControl {
    units: c_uint,
    packets: c_uint,
}

/// `nvmlEventData_t`.
#[repr(C)]
pub struct EventData {
    device: Device,
    kind: c_ulonglong,
    data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// The target of `nvmlEventSet_t`: whether GPU 1 is registered, and the number of its errors reported so far.
pub struct Events {
    watches: bool,
    reported: usize,
}

/// `nvmlEventTypeXidCriticalError`.
const XID_EVENT: c_ulonglong = 8;

/// The current settings.
struct Setting(String);

impl Setting {
    fn now() -> Self {
        let words = std::env::var("CAIRN_STUB_NVML").unwrap_or_default();
        Self(match words.strip_prefix('@') {
            Some(file) => fs::read_to_string(file).unwrap_or_default(),
            None => words,
        })
    }

    fn has(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|it| it == word)
    }

    /// Ends the process as an invalid memory access of a driver does.
    fn crash_at(&self, moment: &str) {
        if self.has(&format!("crash={moment}")) {
            unsafe { ptr::without_provenance_mut::<u64>(8).write_volatile(0) };
        }
    }

    fn number(&self, word: &str) -> Option<usize> {
        self.text(word)?.parse().ok()
    }

    fn text(&self, word: &str) -> Option<&str> {
        self.0.split_whitespace().find_map(|it| it.strip_prefix(word)?.strip_prefix('='))
    }

    /// The indices of the GPUs that are listed.
    fn gpus(&self) -> Vec<usize> {
        let gone = self.number("gone");
        (0..self.number("gpus").unwrap_or(2)).filter(|index| Some(*index) != gone).collect()
    }
}

/// The index of the GPU of a handle, and the number of the partition, if it is one.
fn who(device: Device) -> (usize, Option<usize>) {
    if device > 0xff { (device / 256 - 1, Some(device % 256 - 1)) } else { (device - 1, None) }
}

/// The settings and the index of the GPU, or the error code of a lost one.
fn target(device: Device) -> Result<(Setting, usize), Return> {
    let setting = Setting::now();
    if device == 0 {
        return Err(INVALID_ARGUMENT);
    }
    let (index, _) = who(device);
    if setting.number("lost") == Some(index) || setting.number("gone") == Some(index) {
        return Err(GPU_IS_LOST);
    }
    Ok((setting, index))
}

/// Writes a value to `to`, unless the GPU is lost.
unsafe fn answer<T>(
    device: Device,
    to: *mut T,
    value: impl FnOnce(&Setting, u64) -> Result<T, Return>,
) -> Return {
    match target(device).and_then(|(setting, index)| value(&setting, index as u64)) {
        Ok(value) => {
            unsafe { to.write(value) };
            SUCCESS
        }
        Err(code) => code,
    }
}

unsafe fn write_text(text: &[u8], to: *mut c_char, length: c_uint) -> Return {
    let length = length as usize;
    let end = text.len().min(length.saturating_sub(1));
    for (at, byte) in text[..end].iter().enumerate() {
        unsafe { to.add(at).write(byte.cast_signed()) };
    }
    unsafe { to.add(end).write(0) };
    SUCCESS
}

fn pci(index: usize) -> PciInfo {
    let bus = 0x10 + 8 * index;
    let mut info = PciInfo {
        bus_id_legacy: [0; 16],
        domain: 0,
        bus: c_uint::try_from(bus).unwrap_or(0),
        device: 0,
        pci_device_id: 0x2330_10de,
        pci_subsystem_id: 0,
        bus_id: [0; 32],
    };
    for (to, byte) in info.bus_id.iter_mut().zip(format!("00000000:{bus:02X}:00.0").bytes()) {
        *to = byte.cast_signed();
    }
    info
}

/// Initializes the library.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    let setting = Setting::now();
    setting.crash_at("start");
    let troubles =
        [("no-driver", DRIVER_NOT_LOADED), ("denied", NO_PERMISSION), ("mismatch", LIB_RM_VERSION_MISMATCH)];
    if let Some((_, code)) = troubles.into_iter().find(|(word, _)| setting.has(word)) {
        return code;
    }
    held().push(setting.text("device").and_then(|file| fs::File::open(file).ok()));
    SUCCESS
}

/// The files that are open between initialization and shutdown.
fn held() -> MutexGuard<'static, Vec<Option<fs::File>>> {
    static HELD: Mutex<Vec<Option<fs::File>>> = Mutex::new(Vec::new());
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shuts the library down.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    held().pop();
    SUCCESS
}

/// The version of the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, length: c_uint) -> Return {
    let setting = Setting::now();
    let version = setting.text("version").unwrap_or("580.65.06");
    unsafe { write_text(version.as_bytes(), to, length) }
}

/// The number of GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> Return {
    unsafe { to.write(c_uint::try_from(Setting::now().gpus().len()).unwrap_or(0)) };
    SUCCESS
}

/// The handle of the GPU with this index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(place: c_uint, to: *mut Device) -> Return {
    let setting = Setting::now();
    match setting.gpus().get(place as usize) {
        Some(index) if setting.number("withheld") == Some(*index) => UNKNOWN,
        Some(index) => {
            unsafe { to.write(index + 1) };
            SUCCESS
        }
        None => INVALID_ARGUMENT,
    }
}

/// The PCI address; also of a lost GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, to: *mut PciInfo) -> Return {
    let mut info = pci(who(device).0);
    if Setting::now().has("garbage") {
        info.bus_id = [b'?'.cast_signed(); 32];
        info.bus_id[31] = 0;
    }
    unsafe { to.write(info) };
    SUCCESS
}

/// The model; also of a lost GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Device, to: *mut c_char, length: c_uint) -> Return {
    let name = match who(device) {
        _ if Setting::now().has("garbage") => b"\xff\xfe\x07 H100".to_vec(),
        (_, Some(_)) => b"NVIDIA H100 80GB HBM3 MIG 3g.40gb".to_vec(),
        (_, None) => b"NVIDIA H100 80GB HBM3".to_vec(),
    };
    unsafe { write_text(&name, to, length) }
}

/// The UUID; also of a lost GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Device, to: *mut c_char, length: c_uint) -> Return {
    let uuid = match who(device) {
        (index, None) => format!("GPU-00000000-0000-4000-8000-{index:012x}"),
        (index, Some(part)) => format!("MIG-00000000-0000-5000-800{part}-{index:012x}"),
    };
    unsafe { write_text(uuid.as_bytes(), to, length) }
}

/// The memory: 80 GiB, partly used; half of that of a partition.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, to: *mut Memory) -> Return {
    Setting::now().crash_at("memory");
    while Setting::now().has("hang") {
        thread::sleep(Duration::from_millis(10)); // a driver that hangs
    }
    let part = if device > 0xff { 2 } else { 1 };
    let version = unsafe { (*to).version };
    let value = |setting: &Setting, index: u64| {
        let (total, used) =
            if setting.has("garbage") { (0, u64::MAX) } else { (80 * GIB / part, (index + 1) * GIB) };
        Ok(Memory { version, total, reserved: 0, free: total.saturating_sub(used), used })
    };
    unsafe { answer(device, to, value) }
}

/// The utilization; not supported with MIG.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, to: *mut Utilization) -> Return {
    let value = |setting: &Setting, index: u64| {
        if setting.number("mig").is_some_and(|split| split as u64 == index) {
            return Err(NOT_SUPPORTED);
        }
        let percent = |per: u64| c_uint::try_from(per * (index + 1) % 101).unwrap_or(0);
        let nonsense = setting.has("garbage");
        Ok(Utilization {
            gpu: if nonsense { c_uint::MAX } else { percent(10) },
            memory: if nonsense { c_uint::MAX } else { percent(5) },
        })
    };
    unsafe { answer(device, to, value) }
}

/// The energy in millijoules; 0 of a lost GPU, as NVIDIA's driver reports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Device, to: *mut c_ulonglong) -> Return {
    if target(device).err() == Some(GPU_IS_LOST) {
        unsafe { to.write(0) };
        return SUCCESS;
    }
    let value = |setting: &Setting, index: u64| match () {
        () if setting.has("old") => Err(NOT_SUPPORTED),
        () if setting.has("garbage") => Ok(u64::MAX),
        () => Ok(1_500_000 * (index + 1)),
    };
    unsafe { answer(device, to, value) }
}

/// The power in milliwatts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Device, to: *mut c_uint) -> Return {
    let value = |setting: &Setting, _| Ok(if setting.has("garbage") { c_uint::MAX } else { 250_000 });
    unsafe { answer(device, to, value) }
}

/// The power limit in milliwatts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Device, to: *mut c_uint) -> Return {
    let value = |setting: &Setting, _| Ok(if setting.has("garbage") { c_uint::MAX } else { 700_000 });
    unsafe { answer(device, to, value) }
}

/// The temperature in °C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: Device,
    _sensor: c_uint,
    to: *mut c_uint,
) -> Return {
    let value = |setting: &Setting, index: u64| {
        Ok(if setting.has("garbage") { c_uint::MAX } else { 40 + c_uint::try_from(index).unwrap_or(0) })
    };
    unsafe { answer(device, to, value) }
}

/// A clock in MHz: 1 is that of the multiprocessors, 2 that of the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(device: Device, clock: c_uint, to: *mut c_uint) -> Return {
    let value = |setting: &Setting, _| Ok(if setting.has("garbage") { c_uint::MAX } else { 1980 + clock });
    unsafe { answer(device, to, value) }
}

/// The time for which a policy reduced the clocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetViolationStatus(
    device: Device,
    policy: c_uint,
    to: *mut Violation,
) -> Return {
    let value = |setting: &Setting, _| match () {
        () if setting.has("old") => Err(NOT_SUPPORTED),
        () if setting.has("garbage") => Ok(Violation { reference_microseconds: 0, nanoseconds: u64::MAX }),
        () => Ok(Violation { reference_microseconds: 0, nanoseconds: 500_000_000 * (u64::from(policy) + 1) }),
    };
    unsafe { answer(device, to, value) }
}

/// Memory errors; type 0 are the corrected ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Device,
    kind: c_uint,
    _counter: c_uint,
    to: *mut c_ulonglong,
) -> Return {
    unsafe { answer(device, to, |_, _| Ok(if kind == 0 { 3 } else { 0 })) }
}

/// PCIe replays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPcieReplayCounter(device: Device, to: *mut c_uint) -> Return {
    unsafe { answer(device, to, |_, _| Ok(7)) }
}

/// The values of fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Device,
    count: c_int,
    values: *mut FieldValue,
) -> Return {
    let (setting, index) = match target(device) {
        Ok(target) => target,
        Err(code) => return code,
    };
    let c2c = setting.number("c2c").unwrap_or(0);
    for at in 0..usize::try_from(count).unwrap_or(0) {
        let field = unsafe { &mut *values.add(at) };
        field.value_type = 3; // unsigned long long
        (field.result, field.value) = match field.field {
            _ if setting.has("old") => (NOT_SUPPORTED, 0),
            _ if setting.has("garbage") => (SUCCESS, u64::MAX),
            ROW_REMAP_FAILURE => (SUCCESS, u64::from(setting.number("worn") == Some(index))),
            MEMORY_TEMPERATURE => (SUCCESS, 55),
            NVLINK_MBPS => (SUCCESS, 25_000),
            C2C_COUNT => (SUCCESS, c2c as u64),
            C2C_STATUS => (SUCCESS, u64::from(field.scope as usize + 1 < c2c)),
            C2C_MBPS => (SUCCESS, 44_712),
            NVLINK_SENT | NVLINK_RECEIVED => match neighbour(&setting, index as u64, field.scope) {
                Some(_) => (SUCCESS, u64::from(field.field - NVLINK_SENT + 1 + field.scope) << 20),
                None => (NOT_SUPPORTED, 0),
            },
            _ => (NOT_SUPPORTED, 0),
        };
    }
    SUCCESS
}
