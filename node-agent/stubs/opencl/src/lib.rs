//! A stub of `libOpenCL.so.1`: the four functions that list devices, with injected failures.
//!
//! `CAIRN_STUB_OPENCL` contains options, or `@FILE` with options: `none` (no platform), `hang` (listing platforms never
//! returns), `crash` (the process aborts), `refuse` (listing platforms fails), `mute` (listing devices fails), `empty`
//! (no devices), `garbage` (invalid texts and numbers), `board=ADDRESS` (the card has this PCI address). Without
//! options there is one platform with an accelerator card and a processor.

#![allow(non_snake_case, reason = "the names are OpenCL's")]
#![allow(clippy::missing_safety_doc, reason = "callers follow OpenCL: pointers are valid or null")]

use std::{ffi::c_void, fs, process, thread};

type Code = i32;
type Handle = usize;

const SUCCESS: Code = 0;
const DEVICE_NOT_FOUND: Code = -1;
const OUT_OF_HOST_MEMORY: Code = -6;
const INVALID_VALUE: Code = -30;
const PLATFORM_NOT_FOUND: Code = -1001;

const TYPE_CPU: u64 = 2;
const TYPE_ACCELERATOR: u64 = 8;

fn option(name: &str) -> Option<String> {
    let options = std::env::var("CAIRN_STUB_OPENCL").unwrap_or_default();
    let options = match options.strip_prefix('@') {
        Some(file) => fs::read_to_string(file).unwrap_or_default(),
        None => options,
    };
    options.split_whitespace().find_map(|option| {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        (key == name).then(|| value.to_owned())
    })
}

/// Writes as many handles as fit, and their total number, as OpenCL does.
unsafe fn list(all: &[Handle], capacity: u32, to: *mut Handle, count: *mut u32) -> Code {
    if !to.is_null() {
        for (at, handle) in all.iter().enumerate().take(capacity as usize) {
            unsafe { to.add(at).write(*handle) };
        }
    }
    if !count.is_null() {
        unsafe { count.write(u32::try_from(all.len()).unwrap_or(0)) };
    }
    SUCCESS
}

/// Writes the bytes of a value if they fit, and their number, as OpenCL does.
unsafe fn write_value(value: &[u8], capacity: usize, to: *mut c_void, size: *mut usize) -> Code {
    if !to.is_null() {
        if capacity < value.len() {
            return INVALID_VALUE;
        }
        unsafe { to.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
    }
    if !size.is_null() {
        unsafe { size.write(value.len()) };
    }
    SUCCESS
}

/// Lists the only platform.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetPlatformIDs(capacity: u32, to: *mut Handle, count: *mut u32) -> Code {
    if option("none").is_some() {
        return PLATFORM_NOT_FOUND;
    }
    if option("refuse").is_some() {
        return OUT_OF_HOST_MEMORY;
    }
    if option("crash").is_some() {
        process::abort();
    }
    while option("hang").is_some() {
        thread::park();
    }
    unsafe { list(&[1], capacity, to, count) }
}

/// Returns the name and vendor of the platform.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetPlatformInfo(
    _platform: Handle,
    what: u32,
    capacity: usize,
    to: *mut c_void,
    size: *mut usize,
) -> Code {
    let text: &[u8] = match what {
        _ if option("garbage").is_some() => b"\xff\xfe",
        0x0902 | 0x0903 => b"Xilinx\0",
        _ => return INVALID_VALUE,
    };
    unsafe { write_value(text, capacity, to, size) }
}

/// Lists a card and a processor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetDeviceIDs(
    _platform: Handle,
    _types: u64,
    capacity: u32,
    to: *mut Handle,
    count: *mut u32,
) -> Code {
    if option("mute").is_some() {
        return OUT_OF_HOST_MEMORY;
    }
    if option("empty").is_some() {
        return DEVICE_NOT_FOUND;
    }
    unsafe { list(&[1, 2], capacity, to, count) }
}

/// Returns an attribute of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetDeviceInfo(
    device: Handle,
    what: u32,
    capacity: usize,
    to: *mut c_void,
    size: *mut usize,
) -> Code {
    let garbage = option("garbage").is_some();
    let value = match what {
        0x1000 => (if device == 1 { TYPE_ACCELERATOR } else { TYPE_CPU }).to_ne_bytes().to_vec(),
        _ if garbage => vec![0xff; 8],
        0x1002 => 1_u32.to_ne_bytes().to_vec(),
        0x101F => (64_u64 << 30).to_ne_bytes().to_vec(),
        0x102B => b"xilinx_u250_gen3x16_xdma_shell_4_1\0".to_vec(),
        0x102C => b"Xilinx\0".to_vec(),
        // The address of `cl_khr_pci_bus_info`.
        0x410F => match option("board").and_then(|address| numbers(&address)) {
            Some(numbers) => numbers.iter().flat_map(|it| it.to_ne_bytes()).collect(),
            None => return INVALID_VALUE,
        },
        _ => return INVALID_VALUE,
    };
    unsafe { write_value(&value, capacity, to, size) }
}

/// The four numbers of an address such as `0000:3b:00.0`.
fn numbers(address: &str) -> Option<[u32; 4]> {
    let mut parts = address.split([':', '.']).map(|part| u32::from_str_radix(part, 16).ok());
    Some([parts.next()??, parts.next()??, parts.next()??, parts.next()??])
}
