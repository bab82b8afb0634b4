// SPDX-License-Identifier: MIT
// Selected over asked for, thresholds against errors, and fitted distributions.

// Ratios: on a logarithmic axis where they span more than a factor of 4, with one tick for 1, 2 and 5.
function ratioScale(values, title) {
  const positive = values.filter(value => value > 0);
  const low = Math.min(1, ...positive), high = Math.max(1, ...positive);
  const isLog = high / low > 4;
  const scale = yScale(isLog ? 'logarithmic' : 'linear', value => trim(value, 3));
  scale.title = {display: true, text: title, color: cssColor('--muted')};
  if (!isLog) return {...scale, suggestedMin: low, suggestedMax: high};
  scale.min = low / 1.1;
  scale.max = high * 1.1;
  scale.afterBuildTicks = built => {
    built.ticks = built.ticks.filter(tick => (high / low > 100 ? /^1/ : /^[125]/).test(tick.value.toExponential()));
  };
  return scale;
}

const measured = () => visible().filter(({group}) => group.estimation);

function drawEstimationTable() {
  const table = byId('estimation');
  table.replaceChildren();
  const head = element('tr', undefined, table);
  ['Run', 'Mean', '90 % confidence interval', '5th percentile', '95th percentile', 'Logged steps']
    .forEach(title => element('th', title, head));
  measured().forEach(({group, index}) => {
    const row = element('tr', undefined, table);
    const name = element('td', undefined, row);
    swatch(index, name);
    name.append(group.label);
    const numbers = group.estimation;
    const text = value => trim(value, 4);
    [text(numbers.mean), `${text(numbers.ci_low)} to ${text(numbers.ci_high)}`, text(numbers.p5), text(numbers.p95), numbers.steps]
      .forEach(cell => element('td', cell, row));
  });
}

// A row per run: bars from percentile to percentile and over the confidence interval, and a dot at the mean.
function drawEstimationChart() {
  const shown = measured();
  const colors = shown.map(({index}) => colorOf(index));
  const of = key => shown.map(({group}) => group.estimation[key]);
  const scale = ratioScale([...of('p5'), ...of('p95'), ...of('mean')], 'selected / k');
  const bar = (low, high, thickness, alpha) => ({
    type: 'bar', grouped: false, barThickness: thickness, backgroundColor: colors.map(color => color + alpha),
    data: shown.map(({group}) => [low, high].map(key => Math.max(group.estimation[key], scale.min || 0))),
    isBand: true,
  });
  const canvas = card(byId('estimation-chart'), 'Selected over asked for: mean, confidence interval and percentiles');
  describe(canvas, [['Run', 'mean', '90 % confidence interval', '5th to 95th percentile'], ...shown.map(({group}) => {
    const [mean, low, high, p5, p95] = ['mean', 'ci_low', 'ci_high', 'p5', 'p95'].map(key => trim(group.estimation[key], 4));
    return [group.label, mean, `${low} to ${high}`, `${p5} to ${p95}`];
  })]);
  canvas.parentNode.style.height = `${Math.max(270, 60 + 22 * shown.length)}px`;
  charts.push(new Chart(canvas, {
    data: {
      labels: shown.map(({group}) => group.label),
      datasets: [
        {type: 'line', showLine: false, label: 'mean', data: of('mean'), pointRadius: 4, pointBackgroundColor: colors,
          pointBorderColor: cssColor('--card'), pointBorderWidth: 1},
        bar('ci_low', 'ci_high', 11, ''), bar('p5', 'p95', 4, '80'),
      ],
    },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, indexAxis: 'y',
      scales: {x: scale, y: {type: 'category', offset: true, grid: {display: false}, ticks: {color: cssColor('--ink'), autoSkip: false}}},
      plugins: {legend: {display: false}, tooltip: {filter: item => !item.dataset.isBand,
        callbacks: {label: item => `selected / k: ${trim(item.parsed.x, 4)}`}}},
    },
  }));
}

function drawQuality(weight) {
  const shown = measured();
  byId('estimation-section').hidden = !DATA.groups.some(group => group.estimation);
  ['estimation-chart', 'quality-chart'].forEach(id => byId(id).replaceChildren());
  if (!shown.length) return;
  drawEstimationTable();
  drawEstimationChart();
  const sets = shown.flatMap(({group, index}) => curveSets(index, group.quality, 'step', weight, {}));
  const longest = longestOf(shown.map(({group}) => group.quality), 'step');
  const values = sets.flatMap(set => set.data.map(point => point.y));
  lineChart(card(byId('quality-chart'), `Selected over asked for against steps${weight > 0 ? `, running mean (weight ${weight})` : ''}`), sets,
    {x: xScale('step', longest), y: ratioScale(values, 'selected / k')}, xTexts.step, value => trim(value, 4));
}

function drawTraces(weight) {
  const parent = byId('trace-charts');
  parent.replaceChildren();
  const hasTrace = group => group.trace.threshold.step.length > 0;
  byId('traces-section').hidden = !DATA.groups.some(hasTrace);
  for (const {group, index} of visible().filter(entry => hasTrace(entry.group))) {
    const {threshold, error} = group.trace;
    const line = (curve, label, style) => curveSets(index, curve, 'step', weight, style).slice(0, 1)
      .map(set => ({...set, label, data: set.data.filter(point => point.y > 0)}));
    const sets = [...line(threshold, 'threshold', {borderDash: []}),
      ...line(error, 'residual norm, scaled', {borderDash: [6, 4], borderWidth: 1.5, borderColor: cssColor('--muted')})];
    lineChart(card(parent, `${group.label}: threshold and error against steps`), sets,
      {x: xScale('step', longestOf([threshold], 'step')), y: yScale('logarithmic', plainText)}, xTexts.step, plainText);
  }
}

// The density between neighbouring magnitudes holds the difference of their shares.
function densityPoints(magnitudes, shares, isHistogram) {
  const result = [];
  for (let i = 0; i + 1 < shares.length; ++i) {
    const [left, right] = [magnitudes[i], magnitudes[i + 1]];
    if (!(right > left)) continue;
    const y = (shares[i] - shares[i + 1]) / (right - left);
    if (isHistogram) result.push({x: left, y}, {x: right, y});
    else result.push({x: (left + right) / 2, y});
  }
  return result;
}

function drawFits() {
  const parent = byId('fit-charts');
  parent.replaceChildren();
  byId('fits-section').hidden = DATA.fits.length === 0;
  const fitted = {exponential: ['--c0', [7, 3]], gamma: ['--c1', [2, 2]], pareto: ['--c2', [8, 3, 2, 3]]};
  const names = {exponential: 'exponential', gamma: 'gamma', pareto: 'generalized Pareto'};
  const line = (label, data, color, dash, fill) => ({label, data, borderColor: color, backgroundColor: color + '26',
    borderDash: dash, borderWidth: 2, pointRadius: 0, pointHitRadius: 5, fill});
  for (const fit of DATA.fits) {
    const row = element('div', undefined, parent);
    row.className = 'two';
    const largest = fit.magnitude[fit.magnitude.length - 1];
    const lines = (points, fill) => [line('gradient', points(fit.magnitude, fill), cssColor('--dense'), [], fill),
      ...Object.entries(fitted).map(([key, [color, dash]]) => line(names[key], points(fit[key], false), cssColor(color), dash, false))];
    const scale = (type, title) => ({...xScale('step', 1), type, title: {display: true, text: title, color: cssColor('--muted')}});
    const number = value => trim(value, 3);
    const densities = lines((values, isHistogram) => densityPoints(values, fit.share, isHistogram)
      .filter(point => point.x <= largest), 'start');
    const x = scale('linear', 'magnitude');
    x.ticks.callback = number;
    const y = yScale('logarithmic', value => value.toExponential(0));
    const measuredDensities = densities[0].data.map(point => point.y);
    y.min = Math.min(...measuredDensities) / 2;
    y.title = {display: true, text: 'density', color: cssColor('--muted')};
    lineChart(card(row, `${fit.name}: histogram`), densities, {x, y}, number, number, true);
    const tails = lines(values => values.map((value, i) => ({x: value, y: fit.share[i]})).filter(point => point.x > 0), false);
    const tailX = scale('logarithmic', 'magnitude');
    tailX.ticks.callback = value => value.toExponential(0);
    tailX.min = fit.magnitude.find(value => value > 0);
    tailX.afterBuildTicks = built => { built.ticks = built.ticks.filter(tick => /^1/.test(tick.value.toExponential())); };
    const tailY = yScale('logarithmic', value => value.toExponential(0));
    tailY.title = {display: true, text: 'share of entries above', color: cssColor('--muted')};
    tailY.afterBuildTicks = tailX.afterBuildTicks;
    lineChart(card(row, `${fit.name}: tail`), tails, {x: tailX, y: tailY}, number, number, true);
  }
}
