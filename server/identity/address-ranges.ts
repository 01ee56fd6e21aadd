/** Ranges of addresses that an API key may be used from. */
import { BlockList, isIP } from 'node:net';
import { Problem } from '../problem.ts';

/** Whether an address is in one of the ranges; everything is where there are none. */
export function isAllowedFrom(ranges: readonly string[], address: string | null): boolean {
  if (ranges.length === 0) return true;
  const version = address === null ? 0 : isIP(address);
  if (address === null || version === 0) return false;
  const list = new BlockList();
  for (const range of ranges) add(list, range);
  return list.check(address, version === 4 ? 'ipv4' : 'ipv6');
}

/** Throws `invalid_request` where one is no address, or reaches further than an address is long. */
export function requireRanges(ranges: readonly string[] | undefined): void {
  const errors = (ranges ?? []).flatMap((range, index) =>
    isRange(range)
      ? []
      : [
          {
            in: 'body' as const,
            pointer: `/ip_allow/${index}`,
            message: 'must be an address or a range in CIDR form, such as 192.0.2.0/24',
            code: 'cidr',
          },
        ],
  );
  const [first] = errors;
  if (first) throw new Problem('invalid_request', `body${first.pointer}: ${first.message}`, { errors });
}

function isRange(range: string): boolean {
  const [address = '', bits, ...rest] = range.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

function add(list: BlockList, range: string): void {
  const [address = '', bits] = range.split('/');
  const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
  if (bits === undefined) list.addAddress(address, family);
  else list.addSubnet(address, Number(bits), family);
}
