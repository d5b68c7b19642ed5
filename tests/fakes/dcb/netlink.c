/* Takes a program's netlink sockets to the Unix socket that DCB_KERNEL names, where a test plays the kernel. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int taken = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int socket(int domain, int type, int protocol)
{
    struct sockaddr_un kernel = {.sun_family = AF_UNIX};
    const char *path = getenv("DCB_KERNEL");

    if (domain != AF_NETLINK || path == NULL)
        return REAL(socket)(domain, type, protocol);
    taken = REAL(socket)(AF_UNIX, SOCK_SEQPACKET, 0);
    strncpy(kernel.sun_path, path, sizeof(kernel.sun_path) - 1);
    if (taken >= 0 && connect(taken, (struct sockaddr *)&kernel, sizeof(kernel)) != 0)
        return -1;
    return taken;
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return fd == taken ? 0 : REAL(bind)(fd, address, length);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    return fd == taken ? 0 : REAL(setsockopt)(fd, level, name, value, length);
}

int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    if (fd != taken)
        return REAL(getsockname)(fd, address, length);
    memset(address, 0, sizeof(struct sockaddr_nl));
    address->sa_family = AF_NETLINK;
    *length = sizeof(struct sockaddr_nl);
    return 0;
}

ssize_t sendto(int fd, const void *text, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
    return fd == taken ? send(fd, text, size, flags) : REAL(sendto)(fd, text, size, flags, to, length);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    void *name = message->msg_name;
    ssize_t size;

    if (fd != taken)
        return REAL(recvmsg)(fd, message, flags);
    message->msg_name = NULL;
    message->msg_namelen = 0;
    size = REAL(recvmsg)(fd, message, flags);
    message->msg_name = name;
    message->msg_namelen = sizeof(struct sockaddr_nl);
    if (name != NULL) {
        memset(name, 0, sizeof(struct sockaddr_nl));
        ((struct sockaddr_nl *)name)->nl_family = AF_NETLINK;
    }
    return size;
}
