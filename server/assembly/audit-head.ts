/** Writes the head of the audit log down outside the database, so that a log cut short is found out. */
import type { Services } from '../services.ts';
import { anchorFile, readAnchors, writeAnchor } from '../store/store.ts';

/** Tells in the log where the log is not the one whose head was written down last. */
export async function anchorAuditLog(
  dataDirectory: string,
  { store, clock, log }: Pick<Services, 'store' | 'clock' | 'log'>,
): Promise<void> {
  try {
    const file = anchorFile(dataDirectory);
    const last = (await store.auditLogs.counting(await readAnchors(file))).at(-1);
    const differing = last && (await store.auditLogs.differs(last));
    if (differing)
      log.error({ ...last, fault: differing }, 'the audit log is not the one whose head was written down');
    const head = await store.auditLogs.head();
    log.info(head, 'the head of the audit log');
    await writeAnchor(file, head, clock.now());
  } catch (error) {
    log.error(
      { err: error },
      'the head of the audit log could not be written down; the next hour tries again',
    );
  }
}
