/** Where somebody comes from, for whatever counts or remembers by address. */
import { isIPv6 } from 'node:net';

/** The address itself, or of IPv6 its network of 64 bits: whoever has one address of that has all of it. */
export function placeOf(address: string | null): string {
  if (address === null || !isIPv6(address)) return address ?? 'unknown';
  const [head = '', tail] = address.toLowerCase().split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail ? tail.split(':') : [];
  const missing = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array<string>(missing).fill('0'), ...right];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
