//! Parses `clinfo --raw`.

use std::collections::BTreeMap;

use super::normal_address;

/// OpenCL's properties of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenClDevice {
    /// Its name.
    pub name: Option<String>,
    /// Its usable memory in bytes.
    pub memory: Option<u64>,
}

/// By PCI address.
pub type OpenClDevices = BTreeMap<String, OpenClDevice>;

/// The devices with a PCI address. A line is `[PLATFORM/NUMBER] PROPERTY VALUE`.
pub fn read(text: &str) -> OpenClDevices {
    let mut properties: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for line in text.lines() {
        let Some((device, rest)) = line.trim().strip_prefix('[').and_then(|line| line.split_once(']')) else {
            continue;
        };
        let rest = rest.trim();
        let (property, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        properties.entry(device.trim()).or_default().insert(property, value.trim());
    }
    let device = |its: &BTreeMap<&str, &str>| {
        let name = its.get("CL_DEVICE_NAME").map(|name| (*name).to_owned());
        let memory = its.get("CL_DEVICE_GLOBAL_MEM_SIZE").and_then(|bytes| bytes.parse().ok());
        Some((address(its)?, OpenClDevice { name, memory }))
    };
    properties.values().filter_map(device).collect()
}

/// The PCI address, from the standard extension or from NVIDIA's older one.
fn address(its: &BTreeMap<&str, &str>) -> Option<String> {
    if let Some(info) = its.get("CL_DEVICE_PCI_BUS_INFO_KHR") {
        // `PCI-E, 0000:3b:00.0`
        return info.split([' ', ',']).rfind(|word| word.contains(':')).map(normal_address);
    }
    let number = |property| its.get(property).and_then(|value| value.parse::<u32>().ok());
    let (bus, slot) = (number("CL_DEVICE_PCI_BUS_ID_NV")?, number("CL_DEVICE_PCI_SLOT_ID_NV")?);
    let domain = number("CL_DEVICE_PCI_DOMAIN_ID_NV").unwrap_or(0);
    // a slot holds the device number, and the function in three bits
    Some(format!("{domain:04x}:{bus:02x}:{:02x}.{:x}", slot >> 3, slot & 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_identified_by_pci_address() {
        let text = "#PLATFORMS                                       2\n\
            \x20 CL_PLATFORM_NAME                               NVIDIA CUDA\n\
            [NV/*]    CL_PLATFORM_VENDOR                       NVIDIA Corporation\n\
            [NV/0]    CL_DEVICE_NAME                           NVIDIA H100 80GB HBM3\n\
            [NV/0]    CL_DEVICE_GLOBAL_MEM_SIZE                85017493504\n\
            [NV/0]    CL_DEVICE_PCI_BUS_INFO_KHR               PCI-E, 0000:3b:00.0\n\
            [NV/1]    CL_DEVICE_NAME                           Quadro of long ago\n\
            [NV/1]    CL_DEVICE_PCI_BUS_ID_NV                  134\n\
            [NV/1]    CL_DEVICE_PCI_SLOT_ID_NV                 8\n\
            [POCL/0]  CL_DEVICE_NAME                           pthread\n";
        let device = |name: &str, memory| OpenClDevice { name: Some(name.to_owned()), memory };
        let expected = [
            ("0000:3b:00.0", device("NVIDIA H100 80GB HBM3", Some(85_017_493_504))),
            ("0000:86:01.0", device("Quadro of long ago", None)),
        ];
        assert_eq!(read(text), expected.map(|(address, device)| (address.to_owned(), device)).into());
    }
}
