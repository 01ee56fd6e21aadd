/** The counters of this process, for Prometheus and for the caps on streams. Nothing of a tenant becomes a label. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { HttpMetrics } from './ports.ts';

/** What handlers may ask, and what http/ raises. */
export interface ServerMetrics extends HttpMetrics {
  /** The text of /metrics. */
  render(): Promise<string>;
  /** Shows a number that is asked for each time. */
  show(name: string, help: string, read: () => number): void;
}

export function createMetrics(): ServerMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // It would tell a stranger which faults of Node to try.
  registry.removeSingleMetric('nodejs_version_info');
  const requests = countRequests(registry);
  const streams = countStreams(registry);
  return {
    ...requests,
    ...streams,
    render: () => registry.metrics(),
    show(name, help, read) {
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          this.set(read());
        },
      });
    },
  };
}

function countRequests(registry: Registry): Pick<HttpMetrics, 'requestEnded'> {
  const requests = new Counter({
    name: 'service_http_requests_total',
    help: 'Finished requests by operation and class of status.',
    labelNames: ['operation', 'status'],
    registers: [registry],
  });
  const duration = new Histogram({
    name: 'service_http_request_duration_seconds',
    help: 'Time to answer by operation; streams are left out.',
    labelNames: ['operation'],
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120],
    registers: [registry],
  });
  return {
    requestEnded({ operation, status, seconds, streamed }) {
      requests.inc({ operation, status: `${Math.floor(status / 100)}xx` });
      if (!streamed) duration.observe({ operation }, seconds);
    },
  };
}

function countStreams(registry: Registry): Omit<HttpMetrics, 'requestEnded'> {
  const byUser = new Map<string, number>();
  let all = 0;
  const gauge = new Gauge({
    name: 'service_open_streams',
    help: 'Server-sent event streams that are open.',
    registers: [registry],
  });
  const change = (userId: string, by: 1 | -1) => {
    const count = (byUser.get(userId) ?? 0) + by;
    if (count > 0) byUser.set(userId, count);
    else byUser.delete(userId);
    all += by;
    gauge.set(all);
  };
  return {
    streamOpened: (userId) => change(userId, 1),
    streamClosed: (userId) => change(userId, -1),
    openStreams: (userId) => byUser.get(userId) ?? 0,
    openStreamsInAll: () => all,
  };
}
