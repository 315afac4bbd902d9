// A streaming server of known behaviour, with a log by its own clock: the truth that the
// benchmark's figures are compared with. It shares no code with the benchmark.
//
//   cc -O2 -o mock_server reference/mock_server.c
//   mock_server LOG [ttft=A,B,C] [gap=A,B,C] [tokens=A,B,C] [together=N] [stall=AT,FOR]
//               [trouble=N]
//
// It prints its port. Request n (counted from 0) gets its first token after A + (n*B) % C ms; gap
// and tokens likewise. `together` tokens share an event. Nothing is sent from `stall` AT to AT + FOR
// ms after the first request. Of every `trouble` requests the second gets HTTP 500, the third an
// error in its stream, the fourth a closed connection. Paths: /generate, /v1/chat/completions
// (tool calls). LOG has a line per request: number, when it was read (ns, CLOCK_MONOTONIC), how it
// ended, when, and TIME:TOKENS of every event.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8192, EVENTS = 512, PROMPT = 10, CACHED = 4 };
enum trouble { NONE, STATUS, IN_STREAM, CUT };

struct conn {
    char in[1 << 16];
    size_t length;
    int number, sent, tools, tokens, counts[EVENTS];
    enum trouble trouble;
    uint64_t read_at, ttft, gap, times[EVENTS];
};

static struct conn *conns[MOST];
static struct { uint64_t at; int fd; } heap[MOST];
static int heaped, requests, together = 1, troubled;
static uint64_t ttft[3] = {50, 0, 1}, gap[3] = {10, 0, 1}, tokens[3] = {8, 0, 1}, stall[2], first_request;
static int poller, timer;
static FILE *record;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void arm(void) {
    struct itimerspec when = {0};
    if (heaped) {
        when.it_value.tv_sec = (time_t)(heap[0].at / 1000000000u);
        when.it_value.tv_nsec = (long)(heap[0].at % 1000000000u);
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void swap(int a, int b) {
    __typeof__(heap[0]) kept = heap[a];
    heap[a] = heap[b];
    heap[b] = kept;
}

static void push(uint64_t at, int fd) {
    uint64_t from = first_request + stall[0] * 1000000u, to = from + stall[1] * 1000000u;
    int i = heaped++;
    heap[i].at = from <= at && at < to ? to : at;
    heap[i].fd = fd;
    for (; i && heap[(i - 1) / 2].at > heap[i].at; i = (i - 1) / 2) swap(i, (i - 1) / 2);
}

static int pop(void) {
    int fd = heap[0].fd, i = 0;
    heap[0] = heap[--heaped];
    for (;;) {
        int least = i, left = 2 * i + 1;
        if (left < heaped && heap[left].at < heap[least].at) least = left;
        if (left + 1 < heaped && heap[left + 1].at < heap[least].at) least = left + 1;
        if (least == i) return fd;
        swap(i, least);
        i = least;
    }
}

static void put(int fd, const char *bytes, size_t length) {
    while (length) {
        ssize_t wrote = send(fd, bytes, length, MSG_NOSIGNAL);
        if (wrote < 0 && errno != EAGAIN) return;
        if (wrote > 0) { bytes += wrote; length -= (size_t)wrote; }
    }
}

static void finish(int fd, const char *how, uint64_t at) {
    struct conn *c = conns[fd];
    fprintf(record, "%d %llu %s %llu", c->number, (unsigned long long)c->read_at, how, (unsigned long long)at);
    for (int i = 0; i < c->sent; i++) fprintf(record, " %llu:%d", (unsigned long long)c->times[i], c->counts[i]);
    fputc('\n', record);
    fflush(record);
    close(fd);
    free(c);
    conns[fd] = NULL;
}

static int chunk(char *out, const char *payload) {
    return sprintf(out, "%zx\r\n%s\r\n", strlen(payload), payload);
}

static void event(char *out, const struct conn *c, int count, int done) {
    if (c->tools)
        sprintf(out, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0,"
                "\"function\":{\"%s\":\"w%d \"}}]},\"finish_reason\":%s}],\"usage\":{\"prompt_tokens\":%d,"
                "\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n",
                c->sent ? "arguments" : "name", c->sent, done ? "\"tool_calls\"" : "null", PROMPT, count, CACHED);
    else
        sprintf(out, "data: {\"text\":\"%d words\",\"meta_info\":{\"completion_tokens\":%d,\"prompt_tokens\":%d,"
                "\"cached_tokens\":%d,\"finish_reason\":%s}}\n\n",
                count, count, PROMPT, CACHED, done ? "{\"type\":\"length\"}" : "null");
}

// Sends what is due on a connection, and says when it is to be looked at again.
static void play(int fd) {
    struct conn *c = conns[fd];
    char payload[1024], out[4096];
    int before = 0, length;
    if (!c) return;
    for (int i = 0; i < c->sent; i++) before += c->counts[i];
    if (c->sent == 1 && c->trouble == CUT) { finish(fd, "cut", now()); return; }
    if (c->sent == 1 && c->trouble == IN_STREAM) {
        length = chunk(out, "data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n");
        memcpy(out + length, "0\r\n\r\n", 5);
        uint64_t at = now();
        put(fd, out, (size_t)length + 5);
        finish(fd, "in_stream", at);
        return;
    }
    int count = c->tokens - before < together ? c->tokens - before : together;
    int done = before + count == c->tokens;
    event(payload, c, before + count, done);
    if (done) strcat(payload, "data: [DONE]\n\n");
    length = chunk(out, payload);
    if (done) { memcpy(out + length, "0\r\n\r\n", 5); length += 5; }
    uint64_t at = now();
    put(fd, out, (size_t)length);
    c->times[c->sent] = at;
    c->counts[c->sent++] = count;
    if (done) finish(fd, "ok", at);
    else push(c->read_at + c->ttft + c->gap * (uint64_t)c->sent, fd);
}

static uint64_t of(const uint64_t *rule, int n) { return rule[0] + (uint64_t)n * rule[1] % rule[2]; }

static void generate(int fd, int tools) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    static const char failed[] = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsad\n";
    struct conn *c = conns[fd];
    c->read_at = now();
    if (!requests) first_request = c->read_at;
    c->number = requests++;
    c->tools = tools;
    c->ttft = of(ttft, c->number) * 1000000u;
    c->gap = of(gap, c->number) * 1000000u;
    c->tokens = (int)of(tokens, c->number);
    int place = troubled ? c->number % troubled : 0;
    c->trouble = place == 1 ? STATUS : place == 2 ? IN_STREAM : place == 3 ? CUT : NONE;
    if (c->trouble == STATUS) {
        uint64_t at = now();
        put(fd, failed, sizeof failed - 1);
        finish(fd, "status", at);
        return;
    }
    put(fd, head, sizeof head - 1);
    push(c->read_at + c->ttft, fd);
}

static void answer(int fd) {
    char out[512];
    const char *path = strchr(conns[fd]->in, ' ') + 1;
    if (!strncmp(path, "/generate", 9)) { generate(fd, 0); return; }
    if (!strncmp(path, "/v1/chat/completions", 20)) { generate(fd, 1); return; }
    const char *body = "{\"data\":[{\"id\":\"mock\"}],\"internal_states\":[{}]}";
    int length = sprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                         "Connection: close\r\n\r\n%s", strlen(body), body);
    put(fd, out, (size_t)length);
    close(fd);
    free(conns[fd]);
    conns[fd] = NULL;
}

static void receive(int fd) {
    struct conn *c = conns[fd];
    if (!c) return;
    ssize_t got = recv(fd, c->in + c->length, sizeof c->in - 1 - c->length, 0);
    if (got <= 0) {
        // A client that leaves early is let go when its turn comes.
        if (got == 0 || errno != EAGAIN) epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL);
        return;
    }
    c->length += (size_t)got;
    c->in[c->length] = 0;
    char *end = strstr(c->in, "\r\n\r\n"), *field = strcasestr(c->in, "\r\ncontent-length:");
    size_t body = field && field < end ? strtoul(field + 17, NULL, 10) : 0;
    if (end && (size_t)(end + 4 - c->in) + body <= c->length) answer(fd);
}

static void watch(int fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

static void numbers(const char *text, uint64_t *out, int most) {
    char *end = strchr((char *)text, '=');
    for (int i = 0; i < most && *end; i++) out[i] = strtoull(end + 1, &end, 10);
}

int main(int count, char **words) {
    if (count < 2 || !(record = fopen(words[1], "w"))) return 2;
    for (int i = 2; i < count; i++) {
        uint64_t one[1];
        if (!strncmp(words[i], "ttft=", 5)) numbers(words[i], ttft, 3);
        else if (!strncmp(words[i], "gap=", 4)) numbers(words[i], gap, 3);
        else if (!strncmp(words[i], "tokens=", 7)) numbers(words[i], tokens, 3);
        else if (!strncmp(words[i], "stall=", 6)) numbers(words[i], stall, 2);
        else if (!strncmp(words[i], "together=", 9)) { numbers(words[i], one, 1); together = (int)one[0]; }
        else if (!strncmp(words[i], "trouble=", 8)) { numbers(words[i], one, 1); troubled = (int)one[0]; }
        else return 2;
    }
    struct rlimit files = {MOST, MOST};
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) return 1;
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    poller = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    watch(listener);
    watch(timer);
    for (;;) {
        struct epoll_event ready[256];
        int found = epoll_wait(poller, ready, 256, -1);
        for (int i = 0; i < found; i++) {
            int fd = ready[i].data.fd, taken;
            uint64_t times;
            if (fd == timer) (void)!read(timer, &times, sizeof times);
            else if (fd == listener)
                while ((taken = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (taken >= MOST) { close(taken); continue; }
                    setsockopt(taken, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                    conns[taken] = calloc(1, sizeof(struct conn));
                    watch(taken);
                }
            else receive(fd);
        }
        while (heaped && heap[0].at <= now()) play(pop());
        arm();
    }
}
