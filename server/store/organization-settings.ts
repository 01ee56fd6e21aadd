/** The settings of an organization: what is stored is what differs from the defaults. */
import type { OrganizationSettings, OrganizationSettingsUpdate } from '../contract/api.ts';
import { Problem } from '../problem.ts';

const defaults: OrganizationSettings = {
  invitation_role: 'member',
  invitation_days: 7,
  email_domains: [],
  memory_retention_days: null,
};

/** The settings that count, from the column of their organization. */
export function organizationSettings({ settings }: { readonly settings: string }): OrganizationSettings {
  return { ...defaults, ...JSON.parse(settings) };
}

/** The column after a merge patch: null returns to the default. */
export function settingsText(before: string, patch: OrganizationSettingsUpdate): string {
  const merged = { ...JSON.parse(before), ...patch };
  return JSON.stringify(Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null)));
}

/** Whether people with this address may come in. */
export function allowsAddress({ email_domains }: OrganizationSettings, email: string): boolean {
  const domain = email.slice(email.lastIndexOf('@') + 1);
  return email_domains.length === 0 || email_domains.includes(domain);
}

export function domainRefused({ email_domains }: OrganizationSettings): Problem {
  return new Problem(
    'email_domain_refused',
    `The organization takes only people with an address of ${email_domains.join(', ')}.`,
  );
}
