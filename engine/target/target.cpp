// SPDX-License-Identifier: Apache-2.0
#include "target/target.h"

#include <algorithm>

#include "stream/record.h"

namespace stallscope::target {
namespace {

std::vector<std::string> split_strings(std::string_view text) {
  std::vector<std::string> strings;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    strings.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return strings;
}

std::string in_hexadecimal(std::string_view bytes) {
  std::string text;
  static const char* const digits = "0123456789abcdef";
  for (const char one : bytes) {
    const auto byte = static_cast<unsigned char>(one);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace

// Reads one record's fields and runs `body` with them; a damaged record is the caller's error.
#define STALLSCOPE_WITH(Kind, record)                             \
  auto viewed_##record = stream::view<Kind>(words, count);        \
  if (!viewed_##record) return viewed_##record.error();           \
  [[maybe_unused]] const Kind& record = *viewed_##record->fields; \
  [[maybe_unused]] const std::string_view tail = viewed_##record->tail;

Status Target::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  when_ = words[1];
  switch (tag) {
    case SS_PROCESS_START:
    case SS_PROCESS_END:
    case SS_EXEC:
    case SS_EXEC_FAILED:
    case SS_FORK:
    case SS_WAIT:
      return process(tag, words, count);
    case SS_THREAD_START:
    case SS_THREAD_EXIT:
    case SS_THREAD_NAME:
    case SS_THREAD_SWITCH:
      return thread(tag, words, count);
    case SS_MAP:
    case SS_UNMAP:
    case SS_REMAP:
    case SS_BRK:
    case SS_SITE:
    case SS_ALLOC:
    case SS_FREE:
    case SS_NAME_BLOCK:
      return memory(tag, words, count);
    case SS_BLOCK:
      block_module.push_back(mappings.module_of(code.blocks.back().address));
      return Done{};
    default:
      return mark(tag, words, count);
  }
}

void Target::event(const std::uint64_t* words, std::string_view kind, std::uint64_t address,
                   std::int64_t value, std::string_view text) {
  events.append({words[1], SS_HEAD_THREAD(words[0]), kind, address, value, text});
}

void Target::start(const ss_process_start& record, std::string_view tail) {
  life = Life{};
  first_when_ = record.when;
  life.pid = record.pid;
  life.parent_pid = record.parent_pid;
  life.fork_token = record.fork_token;
  life.started_ns = record.clock_ns;
  life.command = split_strings(tail);
}

Status Target::process(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_PROCESS_START) {
    STALLSCOPE_WITH(ss_process_start, record)
    start(record, tail);
  } else if (tag == SS_PROCESS_END) {
    STALLSCOPE_WITH(ss_process_end, record)
    life.ended = true;
    life.exit_code = static_cast<std::int32_t>(record.exit_code);
    life.ended_ns = record.clock_ns;
  } else if (tag == SS_EXEC) {
    STALLSCOPE_WITH(ss_exec, record)
    life.replaced = true;
    event(words, "exec", 0, 0, tail);
  } else if (tag == SS_EXEC_FAILED) {
    STALLSCOPE_WITH(ss_exec_failed, record)
    life.replaced = false;
    event(words, "exec_failed", 0, static_cast<std::int64_t>(record.error), "");
  } else if (tag == SS_FORK) {
    STALLSCOPE_WITH(ss_fork, record)
    event(words, "fork", 0, 0, "");
  } else {
    STALLSCOPE_WITH(ss_wait, record)
    waited.push_back({record.pid, record.status});
    event(words, "wait", 0, static_cast<std::int64_t>(record.pid), "");
  }
  return Done{};
}

Status Target::thread(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  const std::uint32_t number = SS_HEAD_THREAD(words[0]);
  if (tag == SS_THREAD_START) {
    STALLSCOPE_WITH(ss_thread_start, record)
    Threads::Thread thread;
    thread.number = number;
    thread.lwp = static_cast<std::uint32_t>(record.lwp);
    thread.parent = static_cast<std::uint32_t>(record.parent);
    thread.started = words[1];
    thread.stack_pointer = record.stack_pointer;
    threads.start(std::move(thread));
  } else if (tag == SS_THREAD_EXIT) {
    STALLSCOPE_WITH(ss_thread_exit, record)
    threads.exit(number, words[1]);
  } else if (tag == SS_THREAD_NAME) {
    STALLSCOPE_WITH(ss_thread_name, record)
    threads.rename(number, tail);
  } else {
    STALLSCOPE_WITH(ss_thread_switch, record)
    threads.run(number, words[1]);
  }
  return Done{};
}

void Target::allocate(const ss_alloc& record, std::uint32_t thread) {
  if (record.address == 0) {
    if (heap.revive(record.old_address, record.when)) names.revive(record.when);
    return;
  }
  const std::uint64_t freed =
      heap.allocate(record.address,
                    {record.size, record.when, thread, static_cast<std::uint32_t>(record.site),
                     static_cast<std::uint32_t>(record.kind)},
                    objects);
  names.release(record.address, freed, record.when, objects);
}

Status Target::memory(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  const std::uint32_t thread = SS_HEAD_THREAD(words[0]);
  switch (tag) {
    case SS_ALLOC: {
      STALLSCOPE_WITH(ss_alloc, record)
      allocate(record, thread);
      break;
    }
    case SS_FREE: {
      STALLSCOPE_WITH(ss_free, record)
      const std::uint64_t freed = heap.release(record.address, record.when, objects);
      names.release(record.address, freed, record.when, objects);
      break;
    }
    case SS_SITE: {
      STALLSCOPE_WITH(ss_site, record)
      const auto* frames = reinterpret_cast<const std::uint64_t*>(tail.data());
      sites[static_cast<std::uint32_t>(record.site)].assign(frames, frames + tail.size() / 8);
      break;
    }
    case SS_MAP: {
      STALLSCOPE_WITH(ss_map, record)
      mappings.map({record.address, record.address + record.length, record.offset, record.when,
                    static_cast<std::uint32_t>(record.access), thread, kNone32, std::string(tail)},
                   objects);
      break;
    }
    case SS_UNMAP: {
      STALLSCOPE_WITH(ss_unmap, record)
      mappings.unmap(record.address, record.length, record.when, objects);
      names.release(record.address, record.length, record.when, objects);
      break;
    }
    case SS_REMAP: {
      STALLSCOPE_WITH(ss_remap, record)
      mappings.remap(record.old_address, record.new_address, record.length, record.when, objects);
      break;
    }
    case SS_BRK: {
      STALLSCOPE_WITH(ss_brk, record)
      mappings.move_break(record.old_end, record.new_end, record.when, objects);
      break;
    }
    default: {
      STALLSCOPE_WITH(ss_name_block, record)
      names.give(record.address, {record.size, std::string(tail), record.when, thread}, objects);
      break;
    }
  }
  return Done{};
}

Status Target::mark(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_SIGNAL) {
    STALLSCOPE_WITH(ss_signal, record)
    event(words, record.entered ? "signal" : "signal_return", 0,
          static_cast<std::int64_t>(record.number), "");
  } else if (tag == SS_SYNC) {
    STALLSCOPE_WITH(ss_sync, record)
    event(words, sync_kind_name(record.kind), record.address,
          static_cast<std::int64_t>(record.value), "");
  } else if (tag == SS_MARK) {
    STALLSCOPE_WITH(ss_mark, record)
    if (record.kind == SS_MARK_KIND_INHERITED) {
      heap.restart_counts();
      objects = {};
      return Done{};
    }
    if (record.kind == SS_MARK_KIND_REGION_BEGIN || record.kind == SS_MARK_KIND_REGION_END)
      region(record.kind, SS_HEAD_THREAD(words[0]), tail);
    else
      measured_all = false;
    event(words, mark_kind_name(record.kind), 0, 0, tail);
  } else if (tag == SS_WHEN) {
    STALLSCOPE_WITH(ss_when, record)
    event(words, "when", 0, static_cast<std::int64_t>(record.value), tail);
  } else if (tag == SS_WATCHED) {
    STALLSCOPE_WITH(ss_watched, record)
    const auto narrow = [](std::uint64_t number) { return static_cast<std::uint32_t>(number); };
    watched.append({words[1], SS_HEAD_THREAD(words[0]), narrow(record.watch),
                    static_cast<std::uint8_t>(record.kind), record.address, narrow(record.size),
                    record.start, record.value, record.code, narrow(record.site), record.count,
                    in_hexadecimal(tail)});
  } else if (tag == SS_NOTE) {
    STALLSCOPE_WITH(ss_note, record)
    const std::size_t colon = tail.find(": ");
    const bool named = colon != std::string_view::npos;
    quality.append({named ? tail.substr(0, colon) : "note", "warning", record.count,
                    named ? tail.substr(colon + 2) : tail});
  }
  return Done{};
}
#undef STALLSCOPE_WITH

void Target::region(std::uint64_t kind, std::uint32_t thread, std::string_view name) {
  std::vector<std::string>& open = regions_[thread];
  if (kind == SS_MARK_KIND_REGION_BEGIN) {
    open.emplace_back(name);
  } else if (auto at = std::find(open.rbegin(), open.rend(), name); at != open.rend()) {
    open.erase(at.base() - 1, open.end());  // with those inside it
  }
}

std::vector<std::uint64_t> Target::inheritance(std::uint32_t thread) const {
  std::vector<std::uint64_t> words;
  if (const Threads::Thread* t = threads.find(thread)) {
    stream::append_record(words, SS_THREAD_START, thread, when_, {0, t->lwp, t->stack_pointer});
    stream::append_record(words, SS_THREAD_NAME, thread, when_, {}, t->name);
    stream::append_record(words, SS_THREAD_SWITCH, thread, when_, {0});
  }
  if (const auto open = regions_.find(thread); open != regions_.end())
    for (const std::string& name : open->second)
      stream::append_record(words, SS_MARK, thread, when_, {SS_MARK_KIND_REGION_BEGIN}, name);
  mappings.for_each_live([&](const Mapping& m) {
    stream::append_record(words, SS_MAP, thread, when_,
                          {m.start, m.end - m.start, m.access, m.offset}, m.path);
  });
  for (std::size_t block = 0; block < code.blocks.size(); ++block)
    code.append_block(words, block, thread, when_);
  for (const auto& [site, frames] : sites) {
    const std::string_view tail(reinterpret_cast<const char*>(frames.data()), frames.size() * 8);
    stream::append_record(words, SS_SITE, thread, when_, {site}, tail);
  }
  heap.for_each_live([&](std::uint64_t address, const Heap::Block& block) {
    stream::append_record(words, SS_ALLOC, thread, when_,
                          {address, block.size, block.site, block.kind, 0});
  });
  names.for_each_live([&](std::uint64_t address, const Names::Name& name) {
    stream::append_record(words, SS_NAME_BLOCK, thread, when_, {address, name.size}, name.text);
  });
  stream::append_record(words, SS_MARK, thread, when_, {SS_MARK_KIND_INHERITED}, "");
  return words;
}

void Target::close(std::uint64_t when) {
  when_ = when;
  threads.finish(when);
}

void Target::set_reached(std::vector<std::uint64_t> reached) {
  reached.resize(code.exits.size());
  for (const stream::Block& block : code.blocks)
    for (std::uint32_t exit = block.first_exit; exit + 1 < block.first_exit + block.exits; ++exit)
      reached[exit] -= std::min(reached[exit], reached[exit + 1]);
  taken_ = std::move(reached);
}

std::vector<std::uint64_t> Target::exits_taken() const {
  std::vector<std::uint64_t> taken = taken_;
  taken.resize(code.exits.size());
  for (std::size_t exit = 0; exit < std::min(sifted_.size(), taken.size()); ++exit)
    taken[exit] += sifted_[exit];
  return taken;
}

std::uint64_t Target::executed() const {
  const std::vector<std::uint64_t> taken = exits_taken();
  std::uint64_t instructions = 0;
  for (std::size_t exit = 0; exit < taken.size(); ++exit)
    instructions += taken[exit] * code.exits[exit].instructions;
  return instructions;
}

}  // namespace stallscope::target
