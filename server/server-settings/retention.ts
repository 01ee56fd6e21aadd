/** The settings that say how long things are kept: SERVICE_RETENTION_*, in days. */
import { Fault, type SettingSource } from './setting-source.ts';

/** For how many days what nobody needs any more is kept all the same. */
export interface RetentionSettings {
  /** The events of a run, after its end. */
  readonly eventsDays: number;
  /** Logins and invitations, after they are over. */
  readonly loginsDays: number;
  /** What became of the times of jobs. */
  readonly jobRunsDays: number;
  /** What was used, by day. */
  readonly usageDays: number;
  /** Entries of the audit log; 0 keeps them for good. */
  readonly auditDays: number;
}

/** The database lets no younger entry of the audit log go, whoever asks. */
const fewestAuditDays = 30;
const mostDays = 36_500;

export function readRetention(source: SettingSource): RetentionSettings {
  return {
    eventsDays: source.read({
      variable: 'SERVICE_RETENTION_EVENTS_DAYS',
      flag: 'retention-events-days',
      meaning: 'How many days the events of a run can be replayed after its end; its messages stay.',
      fallback: 7,
      parse: days(1),
    }),
    loginsDays: source.read({
      variable: 'SERVICE_RETENTION_LOGINS_DAYS',
      flag: 'retention-logins-days',
      meaning: 'How many days logins and invitations are kept after they are over.',
      fallback: 30,
      parse: days(0),
    }),
    jobRunsDays: source.read({
      variable: 'SERVICE_RETENTION_JOB_RUNS_DAYS',
      flag: 'retention-job-runs-days',
      meaning: 'How many days the history of jobs is kept; sessions stay.',
      fallback: 90,
      parse: days(1),
    }),
    usageDays: source.read({
      variable: 'SERVICE_RETENTION_USAGE_DAYS',
      flag: 'retention-usage-days',
      meaning: 'How many days of use can be asked for.',
      fallback: 731,
      // Quotas add up a month.
      parse: days(31),
    }),
    auditDays: source.read({
      variable: 'SERVICE_RETENTION_AUDIT_DAYS',
      flag: 'retention-audit-days',
      meaning: `How many days entries of the audit log are kept, ${fewestAuditDays} at least; 0 keeps them for good.`,
      fallback: 400,
      parse: (text) => (/^0+$/.test(text) ? 0 : days(fewestAuditDays)(text)),
    }),
  };
}

function days(fewest: number) {
  return (text: string): number | Fault => {
    const number = Number(text);
    if (/^\d{1,5}$/.test(text) && number >= fewest && number <= mostDays) return number;
    return new Fault(`must be a whole number of days from ${fewest} to ${mostDays}, for instance 90.`);
  };
}
