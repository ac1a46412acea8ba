// SPDX-License-Identifier: Apache-2.0
// A process at native speed, as its samples and the kernel's notes about it tell: threads,
// mappings, and for each sample which instruction the program waited for and on which data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "probes/buckets.h"
#include "sources/generated_code.h"
#include "sources/perf_events.h"
#include "sources/sampled_heap.h"
#include "sources/waiting.h"
#include "sources/watchpoints.h"
#include "stallscope_tables.h"
#include "symbols/symbol_cache.h"
#include "target/mappings.h"
#include "target/threads.h"

namespace stallscope::sources {

// Code of the files that samples fall into, for all processes of a recording.
class CodeFiles {
 public:
  CodeFile* open(const std::string& path);  // null when it cannot be read

 private:
  std::unordered_map<std::string, std::unique_ptr<CodeFile>> files_;
};

struct SampledTables {
  ThreadTable thread;
  ModuleTable module;
  BlockTable block;
  OperationTable operation;
  SiteTable site;
  ObjectTable object;
  EventTable event;
  QualityTable quality;
  BucketTable bucket;
  LiveSampleTable live_sample;
  WatchTable watch;
  ReuseTable reuse;
  std::uint64_t allocations = 0;  // that the allocation log knows
};

class SampledImage;

// A sampled access with a known address.
struct Offered {
  SampledImage* image;
  Accessed accessed;
};

// What all images of a recording share. The cache is used under its lock.
struct Sampling {
  symbols::SymbolCache& symbols;
  CodeFiles& code;
  unsigned skid = 1;
  std::uint64_t started = 0;  // when the recording began, on the samples' clock
  std::string heap_logs;      // folder; empty: there are none
  // The processes run here and now. Otherwise their numbers may be those of others, whose memory
  // is nobody's business.
  bool running = true;
  std::vector<Offered>* offered = nullptr;  // gets what may be watched; null: nobody does
};

class SampledImage {
 public:
  SampledImage(Sampling sampling, std::uint32_t pid, std::string name);

  // The same process after a fork: what was mapped there is here too.
  void inherit(SampledImage& parent);

  void map(const Mapped& mapped);
  void rename(std::uint32_t tid, std::string_view name, std::uint64_t time);
  void start_thread(std::uint32_t tid, std::uint32_t parent, std::uint64_t time);
  void end_thread(std::uint32_t tid, std::uint64_t time);
  void sample(const Sample& sample);
  // A granule of its memory whose watching is over.
  void watched(Watched watched);
  // Takes what its allocation log has; now and then, or that fills up.
  void poll_heap() { heap_.poll(); }

  std::uint64_t samples() const { return rows_.size(); }
  // Once, at the end.
  SampledTables tables();

  const std::string& name() const { return name_; }
  std::uint32_t pid() const { return pid_; }
  std::string parent;   // name of the image that it came from
  bool forked = false;  // from it; else it is the same process after an exec
  bool ended = false;
  std::uint64_t first = 0, last = 0;  // times

 private:
  enum class State : std::uint8_t { kMemory, kCompute, kKernel, kUnknown };
  // A place in the code at which samples stood.
  struct Spot {
    std::uint32_t module = kNone32;
    std::uint64_t ip = 0;  // the file's own
    std::uint64_t bias = 0;
    Recipe recipe;
    std::uint64_t count = 0;
    std::uint32_t operation = kNone32;
    double waits = 0;        // how likely a thread that stands here waits for memory
    bool allocates = false;  // is code of the allocator
  };
  // What an address is in, and how sure that is.
  struct Held {
    std::uint32_t bucket;
    double confidence;
  };
  struct Row {
    std::uint64_t time;
    std::uint64_t ip;
    std::uint64_t address;
    std::uint64_t latency;
    std::uint64_t weight;
    std::uint64_t data_source;
    std::uint32_t thread, cpu, spot, bucket;
    State state;
    How how;
    double bucket_confidence = 1;

    void set(const Held& held) {
      bucket = held.bucket;
      bucket_confidence = held.confidence;
    }
  };
  // A touch of a watched granule, or the sample that began it.
  struct Toucher {
    std::uint32_t thread, spot;
  };
  struct WatchRow {
    Watched watched;
    std::uint32_t bucket;
    std::vector<Toucher> touchers;  // of the sample, then of each touch
  };
  std::uint64_t since(std::uint64_t time) const {
    return time > sampling_.started ? time - sampling_.started : 0;
  }
  std::uint32_t thread_of(std::uint32_t tid, std::uint64_t time);
  void skip_known(target::Mapping& m) const;
  void place_variables(const target::Module& module);
  void place_stack(std::uint32_t thread, std::uint64_t pointer);
  std::uint32_t spot_at(std::uint64_t ip, std::uint64_t time);
  std::uint32_t touched_from(std::uint64_t ip, std::uint64_t time);
  std::uint32_t toucher(std::uint32_t tid, std::uint64_t time);
  Spot make_spot(std::uint64_t ip, unsigned skid, std::uint64_t time);
  Spot spot_in_file(std::uint64_t ip, unsigned skid);
  target::PerfMap generated_names() const;
  void find_waiting(const Sample& sample, Row& row);
  void take_given(const Sample& sample, Row& row);
  void take_array(const Recipe& recipe, const UserRegisters& registers, Row& row);
  Held holder_of(std::uint64_t address, std::uint64_t time);
  void weigh_spots();
  void find_hot_lines();
  const FunctionCode* code_of(const Spot& spot) const;
  void fill_code(SampledTables& out);
  void fill_sites(SampledTables& out);
  void fill_heap_quality(SampledTables& out);
  void fill_samples(SampledTables& out) const;
  void fill_objects(SampledTables& out) const;
  void fill_watches(SampledTables& out) const;
  void fill_reuses(const WatchRow& row, std::uint32_t number, SampledTables& out) const;
  std::uint32_t operation_of(const Toucher& toucher) const;

  Sampling sampling_;
  std::uint32_t pid_;
  std::string name_;
  target::Mappings mappings_;
  target::Threads threads_;
  ObjectTable gone_;
  probes::Buckets buckets_;
  SampledHeap heap_;
  GeneratedCode generated_;
  std::map<std::uint32_t, std::uint32_t> last_numbers_;  // of threads, also of those that ended
  std::map<std::uint32_t, std::uint32_t> numbers_;       // of threads, by the kernel's
  std::map<std::uint64_t, std::uint32_t> stacks_;  // threads by where their stack's mapping begins
  std::set<std::uint32_t> with_variables_;         // modules whose variables were placed
  std::vector<Spot> spots_;
  std::unordered_map<std::uint64_t, std::uint32_t> spot_by_ip_;
  std::unordered_map<std::uint64_t, std::uint32_t> spot_by_touch_;
  std::vector<Row> rows_;
  std::vector<WatchRow> watches_;
};

}  // namespace stallscope::sources
