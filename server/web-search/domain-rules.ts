/** The rules about domains, held against what engines give: they may know no rules, or read them in a way of their own. */

export interface DomainRules {
  /** Empty where any domain is allowed. */
  readonly allowDomains: readonly string[];
  readonly denyDomains: readonly string[];
}

/** Whether an address is of a domain that is allowed, and of none that is denied. */
export function isWithin(url: string, { allowDomains, denyDomains }: DomainRules): boolean {
  const host = new URL(url).hostname.replace(/\.$/, '');
  const isOf = (domain: string) => host === domain || host.endsWith(`.${domain}`);
  return !denyDomains.some(isOf) && (allowDomains.length === 0 || allowDomains.some(isOf));
}

/** As hosts of URLs are written. */
export function plainDomains(domains: readonly string[]): readonly string[] {
  return [...new Set(domains.map((domain) => domain.toLowerCase()))];
}
