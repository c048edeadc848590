//! Attributes of Shardy, which describe how arrays are divided among devices.
//!
//! Source of their encodings: `bytecode.td` of <https://github.com/openxla/shardy>.

use crate::cursor::Cursor;
use crate::entries::{AttributeId, string};
use crate::error::Result;

/// An attribute of Shardy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shardy {
    /// The axes of the mesh that a manual computation handles itself.
    ManualAxes(Vec<AttributeId>),
    /// An axis of a mesh: its name and size.
    MeshAxis(String, i64),
    /// A mesh: its axes, and the numbers of its devices unless they are in order.
    Mesh(Vec<AttributeId>, Vec<i64>),
    /// A part of an axis: the product of the sizes before it, and its size.
    SubAxis(i64, i64),
    /// An axis, or a part of it.
    AxisRef(String, Option<AttributeId>),
    /// The axes that divide a dimension; whether others can be added; and the priority.
    Dimension(Vec<AttributeId>, IsClosed, Option<usize>),
    /// The sharding of an array.
    Tensor(TensorSharding),
    /// The shardings of several arrays.
    PerValue(Vec<AttributeId>),
}

/// True if no more axes can divide a dimension.
pub(crate) type IsClosed = bool;

/// The sharding of an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TensorSharding {
    /// The mesh, or its name.
    pub(crate) mesh: AttributeId,
    /// The sharding of each dimension.
    pub(crate) dimensions: Vec<AttributeId>,
    /// Axes along which the array must be the same.
    pub(crate) replicated: Vec<AttributeId>,
    /// Axes along which the array is still to be reduced.
    pub(crate) unreduced: Vec<AttributeId>,
    /// The word before the unreduced axes, empty for sums.
    pub(crate) reduction: &'static str,
}

impl Shardy {
    /// Reads an attribute. Returns `None` for one that only gives hints to the partitioner: the
    /// sharding rule of a custom call, and the parts of rules.
    pub(crate) fn read(cursor: &mut Cursor<'_>, strings: &[&str]) -> Result<Option<Shardy>> {
        Ok(Some(match cursor.number()? {
            0 => Shardy::ManualAxes(cursor.list(Cursor::index)?),
            1 => Shardy::MeshAxis(string(cursor, strings)?.to_owned(), cursor.signed()?),
            2 => Shardy::Mesh(cursor.list(Cursor::index)?, cursor.list(Cursor::signed)?),
            3 => Shardy::SubAxis(cursor.signed()?, cursor.signed()?),
            4 => {
                let name = string(cursor, strings)?.to_owned();
                let (part, has_part) = cursor.number_and_flag()?;
                Shardy::AxisRef(name, has_part.then_some(part))
            }
            5 => {
                let (axes, is_closed) = (cursor.list(Cursor::index)?, cursor.byte()? != 0);
                let (priority, has_priority) = cursor.number_and_flag()?;
                Shardy::Dimension(axes, is_closed, has_priority.then_some(priority))
            }
            code @ (6 | 15 | 17) => {
                let mesh = cursor.index()?;
                let [dimensions, replicated] =
                    [cursor.list(Cursor::index)?, cursor.list(Cursor::index)?];
                let unreduced = if code == 6 { Vec::new() } else { cursor.list(Cursor::index)? };
                let reduction = match code {
                    17 => match cursor.signed()? {
                        0 => "",
                        1 => "max",
                        2 => "min",
                        other => return cursor.fail(format!("reduction {other} is not known")),
                    },
                    _ => "",
                };
                let sharding =
                    TensorSharding { mesh, dimensions, replicated, unreduced, reduction };
                Shardy::Tensor(sharding)
            }
            7 | 16 => Shardy::PerValue(cursor.list(Cursor::index)?),
            8..=14 => return Ok(None),
            code => return cursor.fail(format!("the attribute {code} of Shardy is not known")),
        }))
    }
}
