// SPDX-License-Identifier: Apache-2.0
// A chat server with rooms. Each connection has a thread that reads what its user says and puts it
// into the queues of all connections of the room, and a thread that takes messages out of the
// connection's own queue and writes them to the user. Members of a room are numbered so that the
// reader of connection c is worker-ROOM-2c and its writer worker-ROOM-(2c+1).
//
// chat [threads] [rooms] [messages] [seed] [equal|unequal]      threads: readers and writers
#define _GNU_SOURCE
#include "threads.h"

#define QUEUE 16u     // messages
#define TEXT 6        // words of a message
#define OUTPUT 1024u  // words of a connection's own output

struct message {
  uint64_t from, number, text[TEXT];
};

struct connection {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t first, last;  // of the queue, counted from the beginning
  struct message queue[QUEUE];
};

struct room {
  pthread_mutex_t lock;
  uint64_t said, users;
  struct connection* connections[MOST_THREADS];
};

struct user {
  pthread_t reader, writer;
  struct room* room;
  struct connection* connection;
  uint64_t* output;
  uint64_t number, messages, checksum;
  uint64_t padding[24];  // no two users in a line
};

uint64_t messages_sent;  // shared by all threads

NOINLINE static struct connection* make_connection(void) {
  struct connection* made = must(aligned_alloc(128, (sizeof *made + 127) / 128 * 128));
  memset(made, 0, sizeof *made);
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  return made;
}

NOINLINE static struct room* make_room(void) {
  struct room* made = must(aligned_alloc(128, (sizeof *made + 127) / 128 * 128));
  memset(made, 0, sizeof *made);
  pthread_mutex_init(&made->lock, NULL);
  return made;
}

NOINLINE static void put_message(struct connection* to, const struct message* message) {
  pthread_mutex_lock(&to->lock);
  while (to->last - to->first == QUEUE) pthread_cond_wait(&to->changed, &to->lock);
  to->queue[to->last++ % QUEUE] = *message;
  pthread_cond_broadcast(&to->changed);
  pthread_mutex_unlock(&to->lock);
}

NOINLINE static struct message take_message(struct connection* from) {
  pthread_mutex_lock(&from->lock);
  while (from->last == from->first) pthread_cond_wait(&from->changed, &from->lock);
  struct message taken = from->queue[from->first++ % QUEUE];
  pthread_cond_broadcast(&from->changed);
  pthread_mutex_unlock(&from->lock);
  return taken;
}

static void* read_user(void* argument) {
  struct user* self = argument;
  struct room* room = self->room;
  start_together();
  for (uint64_t i = 0; i < self->messages; i++) {
    struct message message = {self->number, 0, {0}};
    for (int word = 0; word < TEXT; word++) message.text[word] = scatter(self->number + i + word);
    pthread_mutex_lock(&room->lock);
    message.number = ++room->said;
    pthread_mutex_unlock(&room->lock);
    for (uint64_t to = 0; to < room->users; to++) put_message(room->connections[to], &message);
    __atomic_fetch_add(&messages_sent, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void* write_user(void* argument) {
  struct user* self = argument;
  start_together();
  for (uint64_t i = 0; i < self->messages * self->room->users; i++) {
    struct message message = take_message(self->connection);
    for (int word = 0; word < TEXT; word++)
      self->output[(i * TEXT + (uint64_t)word) % OUTPUT] += message.text[word];
    self->checksum += message.number;
  }
  return NULL;
}

static void join_rooms(struct user* users, uint64_t count, const struct groups* groups,
                       uint64_t messages) {
  struct room** rooms = must(calloc(groups->groups, sizeof *rooms));
  for (uint64_t i = 0; i < groups->groups; i++) rooms[i] = make_room();
  for (uint64_t i = 0; i < count; i++) {
    struct user* user = &users[i];
    user->number = i + 1;
    user->messages = messages;
    user->connection = make_connection();
    user->output = must(calloc(OUTPUT, sizeof *user->output));
    user->room = rooms[group_of(groups, i)];
    user->room->connections[user->room->users++] = user->connection;
  }
}

int main(int argc, char** argv) {
  uint64_t threads = argument(argc, argv, 1, 8), rooms = argument(argc, argv, 2, 2);
  uint64_t messages = argument(argc, argv, 3, 300), seed = argument(argc, argv, 4, 1);
  if (threads % 2 != 0) {
    fprintf(stderr, "%s: a connection has two threads, so their number is even\n", argv[0]);
    return 2;
  }
  uint64_t count = threads / 2, order[MOST_THREADS], checksum = 0;
  struct groups groups = make_groups(argc, argv, count, rooms, 5);
  struct user* users = must(calloc(count, sizeof *users));
  join_rooms(users, count, &groups, messages);
  shuffle(order, threads, seed);
  expect_threads(threads);
  for (uint64_t i = 0; i < threads; i++) {
    uint64_t number = order[i] / 2, group = group_of(&groups, number);
    uint64_t member = 2 * member_of(&groups, number) + order[i] % 2;
    if (order[i] % 2)
      users[number].writer = start_thread(group, member, write_user, &users[number]);
    else
      users[number].reader = start_thread(group, member, read_user, &users[number]);
  }
  for (uint64_t i = 0; i < count; i++) {
    pthread_join(users[i].reader, NULL);
    pthread_join(users[i].writer, NULL);
    checksum += users[i].checksum;
  }
  printf("chat messages_sent=%llu checksum=%llu\n", (unsigned long long)messages_sent,
         (unsigned long long)checksum);
  return 0;
}
