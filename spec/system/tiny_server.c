/* tiny_server PORT FILE: answers every request with the bytes of FILE, as they are now, and hangs up.
 * What is in FILE decides whether that is HTTP at all, and whether it is whole. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_on(int port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 16)) {
    perror("tiny_server");
    exit(1);
  }
  return fd;
}

/* Up to the end of the head; a body that follows is left unread, and read off at the end. */
static void read_head(int fd) {
  char text[8192];
  size_t n = 0;
  while (n < sizeof text - 1) {
    ssize_t got = read(fd, text + n, sizeof text - 1 - n);
    if (got <= 0) return;
    n += (size_t)got;
    text[n] = 0;
    if (strstr(text, "\r\n\r\n")) return;
  }
}

static void answer(int fd, const char *file) {
  char block[65536];
  FILE *from = fopen(file, "rb");
  if (!from) return;
  size_t n;
  while ((n = fread(block, 1, sizeof block, from)) > 0)
    if (write(fd, block, n) != (ssize_t)n) break;
  fclose(from);
}

static void hang_up(int fd) {
  char rest[8192];
  struct timeval soon = {.tv_usec = 100000};
  shutdown(fd, SHUT_WR);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
  while (read(fd, rest, sizeof rest) > 0) continue;
  close(fd);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: tiny_server PORT FILE\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  int on = listen_on(atoi(argv[1]));
  for (;;) {
    int fd = accept(on, NULL, NULL);
    if (fd < 0) continue;
    read_head(fd);
    answer(fd, argv[2]);
    hang_up(fd);
  }
}
