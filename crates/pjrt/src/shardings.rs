//! Shardings of a compiled program's parameters and results.

use oxidax_pjrt_sys as sys;
use oxidax_pjrt_sys::PJRT_Shardings_Extension as Extension;
use oxidax_proto::{Message, messages};

use crate::api;
use crate::error::{Error, Result};
use crate::executable::Executable;

/// The sharding of one array over the devices of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HloSharding {
    /// Every device holds the whole array.
    Replicated,
    /// One device holds the array.
    Maximal {
        /// The device's index in the program's device assignment.
        device: i64,
    },
    /// Each device holds a tile.
    Tiled {
        /// The number of tiles along each axis. If `replicated` is set, one more number follows:
        /// the number of devices that hold each tile.
        tiles: Vec<i64>,
        /// The devices of the tiles, in row-major order of `tiles`.
        devices: Vec<i64>,
        /// True if the last number of `tiles` counts the devices that hold each tile.
        replicated: bool,
    },
    /// The program itself partitions the array, in a manual region.
    Manual,
}

impl HloSharding {
    /// Parses the text of a sharding in HLO and in `mhlo.sharding`: `{replicated}`,
    /// `{devices=[4,1,2]<=[8] last_tile_dim_replicate}`. Returns `None` for another form.
    ///
    /// ```
    /// use oxidax_pjrt::HloSharding;
    /// let sharding = HloSharding::parse("{devices=[2,2]<=[2,2]T(1,0)}");
    /// let (tiles, devices) = (vec![2, 2], vec![0, 2, 1, 3]);
    /// assert_eq!(sharding, Some(HloSharding::Tiled { tiles, devices, replicated: false }));
    /// assert_eq!(HloSharding::parse("{something}"), None);
    /// ```
    pub fn parse(text: &str) -> Option<HloSharding> {
        let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        match inner {
            "replicated" => return Some(HloSharding::Replicated),
            "manual" => return Some(HloSharding::Manual),
            _ => {}
        }
        if let Some(device) = inner.strip_prefix("maximal device=") {
            return Some(HloSharding::Maximal { device: device.parse().ok()? });
        }
        let numbers = |list: &str| -> Option<Vec<i64>> {
            list.split(',').map(|number| number.trim().parse().ok()).collect()
        };
        let (tiles, rest) = inner.strip_prefix("devices=[")?.split_once(']')?;
        let tiles = numbers(tiles)?;
        let (order, suffix) = match rest.split_once(' ') {
            Some((order, suffix)) => (order, suffix.trim()),
            None => (rest, ""),
        };
        let replicated = match suffix {
            "" => false,
            "last_tile_dim_replicate" | "last_tile_dims={replicated}" => true,
            _ => return None,
        };
        let count = tiles.iter().try_fold(1_i64, |n, tile| n.checked_mul(*tile))?;
        let devices = match order.strip_prefix("<=[") {
            Some(order) => {
                let (sizes, transposition) = order.split_once(']')?;
                let sizes = numbers(sizes)?;
                let axes = match transposition.strip_prefix("T(") {
                    Some(axes) => numbers(axes.strip_suffix(')')?)?,
                    None => (0..sizes.len() as i64).collect(),
                };
                transposed_numbers(&sizes, &axes)?
            }
            None => numbers(order)?,
        };
        let fits = devices.len() as i64 == count;
        fits.then_some(HloSharding::Tiled { tiles, devices, replicated })
    }
}

/// Returns the numbers from 0 on, in an array of these sizes whose axes are exchanged.
fn transposed_numbers(sizes: &[i64], axes: &[i64]) -> Option<Vec<i64>> {
    let count = sizes.iter().try_fold(1_i64, |n, size| n.checked_mul(*size))?;
    if !(1..=1 << 20).contains(&count) || axes.len() != sizes.len() {
        return None;
    }
    let mut strides = vec![1; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis] * sizes[axis];
    }
    let order: Vec<(i64, i64)> = axes
        .iter()
        .map(|axis| {
            let axis = usize::try_from(*axis).ok()?;
            Some((*sizes.get(axis)?, *strides.get(axis)?))
        })
        .collect::<Option<_>>()?;
    let number = |index: i64| {
        let (mut rest, mut number) = (index, 0);
        for (size, stride) in order.iter().rev() {
            number += rest % size * stride;
            rest /= size;
        }
        number
    };
    Some((0..count).map(number).collect())
}

impl Executable {
    /// Returns the shardings of the parameters; `None` if the program does not state them.
    ///
    /// # Errors
    /// [`Error::Missing`] if the plugin lacks the extension, which was added after API 0.90;
    /// [`Error::Status`].
    pub fn parameter_shardings(&self) -> Result<Option<Vec<HloSharding>>> {
        self.shardings("PJRT_Shardings_ParameterShardings", |extension| {
            extension.parameter_shardings
        })
    }

    /// Returns the shardings of the results; `None` if the program does not state them.
    ///
    /// # Errors
    /// The errors of [`parameter_shardings`](Self::parameter_shardings).
    pub fn result_shardings(&self) -> Result<Option<Vec<HloSharding>>> {
        self.shardings("PJRT_Shardings_OutputShardings", |extension| extension.output_shardings)
    }

    fn shardings(
        &self,
        name: &'static str,
        function: impl FnOnce(&Extension) -> Option<sys::PJRT_Shardings_Function>,
    ) -> Result<Option<Vec<HloSharding>>> {
        let plugin = self.plugin();
        // SAFETY: the struct is the one of this extension, and zeros are null pointers and absent
        // functions.
        let extension: Extension =
            unsafe { plugin.extension(sys::PJRT_Extension_Type_Shardings, name) }?;
        let function = function(&extension).ok_or_else(|| plugin.missing(name))?;
        let mut args = sys::PJRT_Shardings_Args {
            struct_size: size_of::<sys::PJRT_Shardings_Args>(),
            extension_start: std::ptr::null_mut(),
            executable: self.as_ptr(),
            num_shardings: 0,
            shardings: std::ptr::null(),
            sharding_sizes: std::ptr::null(),
        };
        // SAFETY: the executable is alive; this function owns the error; the shardings live as long
        // as the executable.
        let (shardings, sizes) = unsafe {
            let error = function(&raw mut args);
            if !error.is_null() {
                return Err(plugin.take_error(name, error));
            }
            if args.shardings.is_null() {
                return Ok(None);
            }
            (
                api::slice(args.shardings, args.num_shardings),
                api::slice(args.sharding_sizes, args.num_shardings),
            )
        };
        let shardings = shardings.iter().zip(sizes).map(|(&bytes, &size)| {
            // SAFETY: each sharding is accompanied by its length.
            HloSharding::decode(unsafe { api::slice(bytes.cast::<u8>(), size) })
        });
        shardings.collect::<Result<_>>().map(Some)
    }
}

impl HloSharding {
    /// Reads a serialized `xla.OpSharding`.
    fn decode(bytes: &[u8]) -> Result<Self> {
        const REPLICATED: i32 = 0;
        const MAXIMAL: i32 = 1;
        const OTHER: i32 = 3;
        const MANUAL: i32 = 4;
        let invalid = |message: String| Error::invalid("sharding", message);
        let proto = OpSharding::decode(bytes).map_err(|error| invalid(error.to_string()))?;
        match proto.kind {
            REPLICATED => Ok(Self::Replicated),
            MAXIMAL => Ok(Self::Maximal { device: proto.devices.first().copied().unwrap_or(0) }),
            OTHER => Ok(Self::Tiled {
                devices: proto
                    .expand_devices()
                    .ok_or_else(|| invalid(format!("{proto:?} has no meaning")))?,
                replicated: proto.replicate_on_last_tile_dim || !proto.last_tile_dims.is_empty(),
                tiles: proto.tiles,
            }),
            MANUAL => Ok(Self::Manual),
            other => Err(invalid(format!("shardings of kind {other} are not known"))),
        }
    }
}

messages! {
    /// `xla.OpSharding`, with field numbers as in `xla_data.proto`.
    struct OpSharding {
        kind: i32 = 1,
        tiles: Vec<i64> = 3,
        devices: Vec<i64> = 4,
        replicate_on_last_tile_dim: bool = 6,
        last_tile_dims: Vec<i32> = 8,
        iota_dims: Vec<i64> = 9,
        iota_permutation: Vec<i32> = 10,
    }
}

impl OpSharding {
    /// Returns the devices of the tiles. They are listed explicitly, or are the numbers from 0,
    /// arranged in `iota_dims` and transposed.
    fn expand_devices(&self) -> Option<Vec<i64>> {
        let count =
            self.tiles.iter().try_fold(1_i64, |product, &tiles| product.checked_mul(tiles))?;
        if self.iota_dims.is_empty() {
            return (self.devices.len() as i64 == count).then(|| self.devices.clone());
        }
        let dims = &self.iota_dims;
        let total = dims.iter().try_fold(1_i64, |product, &dim| product.checked_mul(dim))?;
        let permutation: Vec<_> = self
            .iota_permutation
            .iter()
            .map(|&axis| usize::try_from(axis).ok())
            .collect::<Option<_>>()?;
        let mut axes = permutation.clone();
        axes.sort_unstable();
        if total != count || count < 0 || !axes.into_iter().eq(0..dims.len()) {
            return None;
        }
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        let device = |mut position: i64| {
            // The position, interpreted in the transposed dimensions, gives an index along each
            // axis.
            permutation.iter().rev().fold(0, |device, &axis| {
                let index = position % dims[axis];
                position /= dims[axis];
                device + index * strides[axis]
            })
        };
        Some((0..count).map(device).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(proto: &OpSharding) -> Result<HloSharding> {
        HloSharding::decode(&proto.encode_to_vec())
    }

    #[test]
    fn iota_is_laid_out_and_transposed() {
        // {devices=[2,4]<=[4,2]T(1,0)}
        let proto = OpSharding {
            kind: 3,
            tiles: vec![2, 4],
            iota_dims: vec![4, 2],
            iota_permutation: vec![1, 0],
            ..OpSharding::default()
        };
        let expected = HloSharding::Tiled {
            tiles: vec![2, 4],
            devices: vec![0, 2, 4, 6, 1, 3, 5, 7],
            replicated: false,
        };
        assert_eq!(decode(&proto).expect("valid"), expected);
    }

    #[test]
    fn inconsistent_shardings_are_refused() {
        assert_eq!(HloSharding::decode(&[]).expect("empty"), HloSharding::Replicated);
        assert!(HloSharding::decode(&[0xff]).is_err());
        let proto =
            OpSharding { kind: 3, tiles: vec![3], devices: vec![0, 1], ..OpSharding::default() };
        assert!(decode(&proto).is_err());
        let iota = OpSharding {
            kind: 3,
            tiles: vec![2],
            iota_dims: vec![2],
            iota_permutation: vec![7],
            ..OpSharding::default()
        };
        assert!(decode(&iota).is_err());
        assert!(decode(&OpSharding { kind: 77, ..OpSharding::default() }).is_err());
    }
}
