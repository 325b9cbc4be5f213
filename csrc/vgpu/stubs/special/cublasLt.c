/* Callers take an algorithm from the heuristic's answer and its workspace size. */
#include <stddef.h>
#include <string.h>

/* cublasLtMatmulHeuristicResult_t */
struct heuristic_result {
  unsigned long long algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

size_t cublasLtGetVersion(void) { return 130000; }

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c,
                                   void* d, void* preference, int wanted,
                                   struct heuristic_result* results, int* count) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
  *count = wanted > 0 ? 1 : 0;
  if (wanted > 0) memset(results, 0, sizeof *results);
  return 0;
}
