module attributes {stable_mosaic_gpu.version = 9 : i64} {
"stable_mosaic_gpu.func.func"() ({
^bb0(%spec: !llvm.ptr, %arrays: !llvm.ptr):
%0 = "stable_mosaic_gpu.arith.constant"() {value = 0 : i32} : () -> i32
%1 = "stable_mosaic_gpu.llvm.getelementptr"(%arrays, %0) {elem_type = !llvm.ptr, rawConstantIndices = array<i32: -2147483648>} : (!llvm.ptr, i32) -> !llvm.ptr
%2 = "stable_mosaic_gpu.llvm.load"(%1) {ordering = 0 : i64} : (!llvm.ptr) -> !llvm.ptr
%3 = "stable_mosaic_gpu.arith.constant"() {value = 1 : i32} : () -> i32
%4 = "stable_mosaic_gpu.llvm.getelementptr"(%arrays, %3) {elem_type = !llvm.ptr, rawConstantIndices = array<i32: -2147483648>} : (!llvm.ptr, i32) -> !llvm.ptr
%5 = "stable_mosaic_gpu.llvm.load"(%4) {ordering = 0 : i64} : (!llvm.ptr) -> !llvm.ptr
%6 = "stable_mosaic_gpu.arith.constant"() {value = 2 : i32} : () -> i32
%7 = "stable_mosaic_gpu.llvm.getelementptr"(%arrays, %6) {elem_type = !llvm.ptr, rawConstantIndices = array<i32: -2147483648>} : (!llvm.ptr, i32) -> !llvm.ptr
%8 = "stable_mosaic_gpu.llvm.load"(%7) {ordering = 0 : i64} : (!llvm.ptr) -> !llvm.ptr
%9 = "stable_mosaic_gpu.builtin.unrealized_conversion_cast"(%spec) : (!llvm.ptr) -> !gpu.async.token
%10 = "stable_mosaic_gpu.arith.constant"() {value = 4 : index} : () -> index
%11 = "stable_mosaic_gpu.arith.constant"() {value = 128 : index} : () -> index
%12 = "stable_mosaic_gpu.arith.constant"() {value = 1 : index} : () -> index
%45 = "stable_mosaic_gpu.gpu.launch"(%9, %10, %12, %12, %11, %12, %12, %0) ({
^bb0(%block: index, %by: index, %bz: index, %tx: index, %ty: index, %tz: index, %gx: index, %gy: index, %gz: index, %dx: index, %dy: index, %dz: index):
%thread = "stable_mosaic_gpu.arith.index_cast"(%tx) : (index) -> i32
%bytes = "stable_mosaic_gpu.gpu.dynamic_shared_memory"() : () -> memref<?xi8, #gpu.address_space<workgroup>>
%address = "stable_mosaic_gpu.memref.extract_aligned_pointer_as_index"(%bytes) : (memref<?xi8, #gpu.address_space<workgroup>>) -> index
%number = "stable_mosaic_gpu.arith.index_cast"(%address) : (index) -> i64
%shared = "stable_mosaic_gpu.llvm.inttoptr"(%number) : (i64) -> !llvm.ptr<3>
%13 = "stable_mosaic_gpu.arith.index_cast"(%block) : (index) -> i32
%14 = "stable_mosaic_gpu.arith.maxsi"(%13, %0) : (i32, i32) -> i32
%15 = "stable_mosaic_gpu.arith.constant"() {value = 3 : i32} : () -> i32
%16 = "stable_mosaic_gpu.arith.minsi"(%14, %15) : (i32, i32) -> i32
%17 = "stable_mosaic_gpu.arith.constant"() {value = 256 : i32} : () -> i32
%18 = "stable_mosaic_gpu.arith.muli"(%16, %17) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
%19 = "stable_mosaic_gpu.arith.constant"() {value = 128 : i32} : () -> i32
"stable_mosaic_gpu.scf.for"(%thread, %17, %19) ({
^bb0(%20: i32):
%22 = "stable_mosaic_gpu.arith.addi"(%18, %20) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
%23 = "stable_mosaic_gpu.arith.constant"() {value = 1000 : i32} : () -> i32
%24 = "stable_mosaic_gpu.arith.cmpi"(%22, %23) {predicate = 2 : i64} : (i32, i32) -> i1
%25 = "stable_mosaic_gpu.llvm.getelementptr"(%2, %22) {elem_type = f32, rawConstantIndices = array<i32: -2147483648>} : (!llvm.ptr, i32) -> !llvm.ptr
%30 = "stable_mosaic_gpu.scf.if"(%24) ({
%26 = "stable_mosaic_gpu.llvm.load"(%25) {ordering = 0 : i64} : (!llvm.ptr) -> f32
"stable_mosaic_gpu.scf.yield"(%26) : (f32) -> ()
}, {
%28 = "stable_mosaic_gpu.arith.constant"() {value = 0x00000000 : f32} : () -> f32
"stable_mosaic_gpu.scf.yield"(%28) : (f32) -> ()
}) : (i1) -> f32
%31 = "stable_mosaic_gpu.llvm.getelementptr"(%5, %22) {elem_type = f32, rawConstantIndices = array<i32: -2147483648>} : (!llvm.ptr, i32) -> !llvm.ptr
%36 = "stable_mosaic_gpu.scf.if"(%24) ({
%32 = "stable_mosaic_gpu.llvm.load"(%31) {ordering = 0 : i64} : (!llvm.ptr) -> f32
"stable_mosaic_gpu.scf.yield"(%32) : (f32) -> ()
}, {
%34 = "stable_mosaic_gpu.arith.constant"() {value = 0x00000000 : f32} : () -> f32
"stable_mosaic_gpu.scf.yield"(%34) : (f32) -> ()
}) : (i1) -> f32
%37 = "stable_mosaic_gpu.arith.addf"(%30, %36) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
%38 = "stable_mosaic_gpu.llvm.getelementptr"(%8, %22) {elem_type = f32, rawConstantIndices = array<i32: -2147483648>} : (!llvm.ptr, i32) -> !llvm.ptr
"stable_mosaic_gpu.scf.if"(%24) ({
"stable_mosaic_gpu.llvm.store"(%37, %38) {ordering = 0 : i64} : (f32, !llvm.ptr) -> ()
"stable_mosaic_gpu.scf.yield"() : () -> ()
}, {
}) : (i1) -> ()
"stable_mosaic_gpu.scf.yield"() : () -> ()
}) : (i32, i32, i32) -> ()
"stable_mosaic_gpu.gpu.terminator"() : () -> ()
}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0>, workgroup_attributions = 0 : i64} : (!gpu.async.token, index, index, index, index, index, index, i32) -> !gpu.async.token
"stable_mosaic_gpu.func.return"() : () -> ()
}) {function_type = (!llvm.ptr, !llvm.ptr) -> (), llvm.emit_c_interface, sym_name = "kernel_add"} : () -> ()
}
