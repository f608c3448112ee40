/* SQLite's default VFS, wrapped so that its calls may fail. */
#include "fault.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

typedef struct file {
  sqlite3_file base;
  sqlite3_file *real; /* behind this struct */
} file;

static sqlite3_vfs *real_vfs;

static bool hits(const char *what) {
  return mt_fault_hits(MT_FAULT_IO, what);
}

static int fails(int code, int why) {
  errno = why;
  return code;
}

static sqlite3_file *real(sqlite3_file *f) {
  return ((file *)f)->real;
}

static int close_file(sqlite3_file *f) {
  return real(f)->pMethods->xClose(real(f));
}

static int read_file(sqlite3_file *f, void *p, int n, sqlite3_int64 at) {
  if (hits("xRead")) return fails(SQLITE_IOERR_READ, EIO);
  return real(f)->pMethods->xRead(real(f), p, n, at);
}

/* Half of the failing writes have written a part. */
static int write_file(sqlite3_file *f, const void *p, int n, sqlite3_int64 at) {
  if (!hits("xWrite")) return real(f)->pMethods->xWrite(real(f), p, n, at);
  if (mt_fault_choice(2)) real(f)->pMethods->xWrite(real(f), p, n / 2, at);
  return mt_fault_choice(2) ? fails(SQLITE_FULL, ENOSPC) : fails(SQLITE_IOERR_WRITE, EIO);
}

static int truncate_file(sqlite3_file *f, sqlite3_int64 n) {
  if (hits("xTruncate")) return fails(SQLITE_IOERR_TRUNCATE, EIO);
  return real(f)->pMethods->xTruncate(real(f), n);
}

static int sync_file(sqlite3_file *f, int flags) {
  if (!hits("xSync")) return real(f)->pMethods->xSync(real(f), flags);
  if (mt_fault_choice(2)) real(f)->pMethods->xSync(real(f), flags);
  return fails(SQLITE_IOERR_FSYNC, EIO);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *n) {
  if (hits("xFileSize")) return fails(SQLITE_IOERR_FSTAT, EIO);
  return real(f)->pMethods->xFileSize(real(f), n);
}

static int lock_file(sqlite3_file *f, int level) {
  if (hits("xLock")) return fails(SQLITE_IOERR_LOCK, ENOLCK);
  return real(f)->pMethods->xLock(real(f), level);
}

/* An unlock is done but reported as failed: SQLite does not check every result. */
static int unlock_file(sqlite3_file *f, int level) {
  bool failed = hits("xUnlock");
  int code = real(f)->pMethods->xUnlock(real(f), level);
  return failed ? fails(SQLITE_IOERR_UNLOCK, ENOLCK) : code;
}

static int check_lock(sqlite3_file *f, int *out) {
  if (hits("xCheckReservedLock")) return fails(SQLITE_IOERR_CHECKRESERVEDLOCK, EIO);
  return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int control(sqlite3_file *f, int op, void *arg) {
  return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int sector_size(sqlite3_file *f) {
  return real(f)->pMethods->xSectorSize(real(f));
}

static int characteristics(sqlite3_file *f) {
  return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out) {
  *out = NULL;
  if (hits("xShmMap")) return fails(SQLITE_IOERR_SHMMAP, ENOMEM);
  return real(f)->pMethods->xShmMap(real(f), region, size, extend, out);
}

static int shm_lock(sqlite3_file *f, int offset, int n, int flags) {
  if (!hits(flags & SQLITE_SHM_UNLOCK ? "xShmLock (unlock)" : "xShmLock"))
    return real(f)->pMethods->xShmLock(real(f), offset, n, flags);
  if (flags & SQLITE_SHM_UNLOCK) real(f)->pMethods->xShmLock(real(f), offset, n, flags);
  return fails(SQLITE_IOERR_SHMLOCK, ENOLCK);
}

static void shm_barrier(sqlite3_file *f) {
  real(f)->pMethods->xShmBarrier(real(f));
}

static int shm_unmap(sqlite3_file *f, int gone) {
  return real(f)->pMethods->xShmUnmap(real(f), gone);
}

/* Version 2: no memory-mapped reads, which would bypass this wrapper. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_lock,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out) {
  (void)vfs;
  file *own = (file *)f;
  f->pMethods = NULL;
  own->real = (sqlite3_file *)(own + 1);
  if (hits("xOpen")) return fails(SQLITE_CANTOPEN, EMFILE);
  int code = real_vfs->xOpen(real_vfs, name, own->real, flags, out);
  if (own->real->pMethods) f->pMethods = &methods;
  return code;
}

static int delete_file(sqlite3_vfs *vfs, const char *name, int sync) {
  (void)vfs;
  if (hits("xDelete")) return fails(SQLITE_IOERR_DELETE, EIO);
  return real_vfs->xDelete(real_vfs, name, sync);
}

static int access_file(sqlite3_vfs *vfs, const char *name, int flags, int *out) {
  (void)vfs;
  if (hits("xAccess")) return fails(SQLITE_IOERR_ACCESS, EIO);
  return real_vfs->xAccess(real_vfs, name, flags, out);
}

static int full_name(sqlite3_vfs *vfs, const char *name, int n, char *out) {
  (void)vfs;
  if (hits("xFullPathname")) return fails(SQLITE_CANTOPEN, EIO);
  return real_vfs->xFullPathname(real_vfs, name, n, out);
}

void mt_fault_install_vfs(void) {
  static sqlite3_vfs gated;
  real_vfs = sqlite3_vfs_find(NULL);
  if (!real_vfs) abort();
  gated = *real_vfs;
  gated.pNext = NULL;
  gated.zName = "exhaust";
  gated.szOsFile = real_vfs->szOsFile + (int)sizeof(file);
  gated.xOpen = open_file;
  gated.xDelete = delete_file;
  gated.xAccess = access_file;
  gated.xFullPathname = full_name;
  if (sqlite3_vfs_register(&gated, 1)) abort();
}
