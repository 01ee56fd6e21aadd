/** Tells who asks that a soft limit is passed, in a header of the answer. */

/** No header where there is nothing to tell. */
export function quotaNotice(notices: readonly string[]): Record<string, string> {
  return notices.length === 0 ? {} : { 'X-Quota-Notice': notices.join(' ') };
}
