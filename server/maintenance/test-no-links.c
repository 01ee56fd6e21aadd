/* Loaded before the C library of a command under test: no hard link can be made, as on disks that know none. The number
 * of the error stands in a variable. */
#include <errno.h>
#include <stdlib.h>

int link(const char *from, const char *to) {
  (void)from, (void)to;
  const char *number = getenv("TEST_LINK_ERROR");
  errno = number ? atoi(number) : EPERM;
  return -1;
}
