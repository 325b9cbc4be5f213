// Marks what a replacement library exports.
#ifndef STREAMGUARD_VGPU_RUNTIME_EXPORT_H_
#define STREAMGUARD_VGPU_RUNTIME_EXPORT_H_

// Everything else is hidden: the libraries live in one global scope with torch's.
#define VGPU_API extern "C" __attribute__((visibility("default")))

#endif  // STREAMGUARD_VGPU_RUNTIME_EXPORT_H_
