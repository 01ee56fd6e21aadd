/** How long a process holds the work that it has taken. */
import type { ServerSettings } from '../server-settings/server-settings.ts';

/** Renewed three times before it runs out, so that two renewals may fail. */
export function leaseOf({ leaseSeconds }: Pick<ServerSettings, 'leaseSeconds'>) {
  return { leaseMs: leaseSeconds * 1000, renewMs: leaseSeconds * 300 };
}
