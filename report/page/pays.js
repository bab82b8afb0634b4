// SPDX-License-Identifier: MIT
// Where sparsified training pays: quality against both clocks, and time to target against bandwidth.

const TABLE_BANDWIDTHS = [0.01, 0.1, 1, 10, 100];
const secondsAt = (model, gbps) => model.ideal + model.latency + model.gigabits / gbps;
const modelled = () => visible().filter(({group}) => group.model);

// The run that gains most on the described network, in a sentence.
function gainText() {
  if (DATA.dense === null) return '';
  const dense = DATA.groups[DATA.dense].table;
  const reached = DATA.groups.filter(group => !group.dense && group.table.target_time && group.table.target_ideal);
  if (!reached.length || !dense.target_time || !dense.target_ideal) return '';
  const best = reached.reduce((a, b) => b.table.target_time.mean < a.table.target_time.mean ? b : a);
  const versusDense = (versus, own) => {
    const text = factorText(versus, own, ['sooner than', 'later than']);
    return text.startsWith('1× ') ? 'as fast as dense' : `${text} dense`;
  };
  return `Of the compressed runs ${best.label} is the first at the target ${DATA.clock.described}: ` +
    `${versusDense(dense.target_time, best.table.target_time)}. On an ideal network, which takes no time, it is ` +
    `${versusDense(dense.target_ideal, best.table.target_ideal)}.`;
}

function drawPaysTable() {
  const table = byId('pays-table');
  table.replaceChildren();
  const head = element('tr', undefined, table);
  ['Run', 'Sooner than dense', ...TABLE_BANDWIDTHS.map(gbps => `To target at ${bandwidthText(gbps)}`), 'On an ideal network',
    'Sent to target'].forEach(title => element('th', title, head));
  visible().forEach(({group, index}) => {
    const row = element('tr', undefined, table);
    const name = element('td', undefined, row);
    swatch(index, name);
    name.append(group.label);
    const {model, table: numbers} = group;
    element('td', numbers.target_time ? group.pays || '–' : 'target not reached', row);
    TABLE_BANDWIDTHS.forEach(gbps => element('td', model ? secondsText(secondsAt(model, gbps)) : '–', row));
    element('td', model ? secondsText(model.ideal) : '–', row);
    element('td', numbers.target_bytes ? bytesText(numbers.target_bytes.mean) : '–', row);
  });
}

function bandwidthSets() {
  const {low, high} = DATA.bandwidths, count = 60;
  const places = Array.from({length: count + 1}, (_, i) => low * (high / low) ** (i / count));
  const sets = modelled().map(({group, index}) => runLine(index, places.map(x => ({x, y: secondsAt(group.model, x)}))));
  const values = sets.flatMap(set => set.data.map(point => point.y)).filter(y => y > 0);
  for (const {group, index} of modelled()) {
    if (!(group.break_even >= low && group.break_even <= high)) continue;
    sets.push({label: `${group.label} takes as long as dense`, showLine: false, pointStyle: 'circle', pointRadius: 8, pointHitRadius: 8,
      pointBorderWidth: 2, pointBorderColor: colorOf(index), pointBackgroundColor: 'transparent', isMark: true,
      data: [{x: group.break_even, y: secondsAt(group.model, group.break_even)}]});
  }
  for (const x of DATA.bandwidths.described) {
    sets.push({label: `described network, ${bandwidthText(x)}`, data: [{x, y: Math.min(...values)}, {x, y: Math.max(...values)}],
      borderColor: cssColor('--muted'), borderDash: [4, 4], borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0, isBand: true});
  }
  return sets;
}

function drawBandwidths() {
  const parent = byId('bandwidth-chart');
  parent.replaceChildren();
  byId('bandwidth-part').hidden = !DATA.groups.some(group => group.model);
  drawPaysTable();
  if (!modelled().length) return;
  // Powers of ten; on a phone every second one.
  const decades = built => {
    const stride = built.chart.width < 560 ? 2 : 1;
    built.ticks = built.ticks.filter(tick => /^1e/.test(tick.value.toExponential()) && (Math.round(Math.log10(tick.value)) + 9) % stride === 0);
  };
  const x = {...xScale('step', 1), type: 'logarithmic', min: DATA.bandwidths.low, max: DATA.bandwidths.high, afterBuildTicks: decades,
    title: {display: true, text: 'bandwidth of a worker’s link', color: cssColor('--muted')}};
  x.ticks.callback = value => bandwidthText(value);
  const y = yScale('logarithmic', value => `${trim(value, 3)} s`);
  y.title = {display: true, text: 'computed time to target', color: cssColor('--muted')};
  y.afterBuildTicks = built => { built.ticks = built.ticks.filter(tick => /^[125]/.test(tick.value.toExponential())); };
  lineChart(card(parent, 'Time to target against bandwidth', 'tall'), bandwidthSets(), {x, y}, bandwidthText, secondsText);
}

function drawPays(yText) {
  byId('pays-section').hidden = !DATA.clock.has_ideal;
  if (!DATA.clock.has_ideal) return;
  byId('gain').textContent = `${gainText()} ${hasBands() ? 'Lines are means over seeds, bands the range from the lowest to the highest.' : ''}`.trim();
  const parent = byId('clock-charts');
  parent.replaceChildren();
  const shown = visible();
  const name = `${DATA.metric.label} against`;
  drawCurve(parent, `${name} time ${DATA.clock.described}: the described network`, shown, 'metric', 'time', 0, 'linear', yText, true);
  drawCurve(parent, `${name} time on an ideal network: it takes no time`, shown, 'metric', 'time_ideal', 0, 'linear', yText, true);
  drawBandwidths();
}
